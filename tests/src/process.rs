//! A child process whose output is kept, and which does not outlive its owner.

use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::within;

/// How long a process may take to leave after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// A running program. It is killed on drop; if a test is panicking then, its output is printed.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    status: Option<ExitStatus>,
    log: PathBuf,
}

impl Process {
    /// Starts `command` with its output going to the file `log`.
    ///
    /// The child leads a process group of its own, so Ctrl-C reaches only its owner, and it is
    /// killed when the thread that started it ends (`setpriv --pdeathsig`), even by SIGKILL: start
    /// it on a thread that lives as long as the process is needed.
    ///
    /// # Errors
    /// The log cannot be made or the command cannot be started. A program that `nsenter` cannot
    /// find shows only as an early exit.
    pub fn spawn(name: &str, command: &Command, log: &Path) -> Result<Self> {
        let file = File::options()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("open {}", log.display()))?;
        let mut guarded = Command::new("setpriv");
        guarded
            .args(["--pdeathsig", "KILL", "--"])
            .arg(command.get_program())
            .args(command.get_args());
        for (key, value) in command.get_envs() {
            match value {
                Some(value) => guarded.env(key, value),
                None => guarded.env_remove(key),
            };
        }
        let child = guarded
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .process_group(0)
            .spawn()
            .with_context(|| format!("start {name}: {command:?}"))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            status: None,
            log: log.to_owned(),
        })
    }

    /// The program's process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Everything the program wrote so far, standard output and error mixed.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Sends `signal`.
    ///
    /// # Errors
    /// The process has ended.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let id = i32::try_from(self.child.id()).context("process id")?;
        kill(Pid::from_raw(id), signal).with_context(|| format!("send {signal} to {}", self.name))
    }

    /// SIGKILL, and waits for the end.
    ///
    /// # Errors
    /// The process had ended before.
    pub fn kill(&mut self) -> Result<()> {
        self.signal(Signal::SIGKILL)?;
        self.wait(GRACE).map(drop)
    }

    /// SIGTERM, and waits up to five seconds for the end.
    ///
    /// # Errors
    /// The process had ended before, or does not end in time.
    pub fn terminate(&mut self) -> Result<ExitStatus> {
        self.signal(Signal::SIGTERM)?;
        self.wait(GRACE)
    }

    /// Waits up to `timeout` for the end.
    ///
    /// # Errors
    /// The process still runs then; the error carries its output.
    pub fn wait(&mut self, timeout: Duration) -> Result<ExitStatus> {
        within(timeout, || self.exited().ok_or("it still runs"))
            .map_err(|reason| anyhow!("{}: {reason} after {timeout:?}\n{}", self.name, self.log()))
    }

    /// How the process ended, if it did.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let ended_by_itself = self.exited();
        if ended_by_itself.is_none() {
            // Killing fails only if it ended just now.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        if std::thread::panicking() {
            eprintln!(
                "---- {} ({}) ----\n{}",
                self.name,
                describe(ended_by_itself),
                self.log()
            );
        }
    }
}

fn describe(status: Option<ExitStatus>) -> String {
    match status {
        None => "was running".into(),
        Some(status) => match status.signal() {
            Some(signal) => format!("ended by signal {signal}"),
            None => status.to_string(),
        },
    }
}
