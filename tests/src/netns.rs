//! One network namespace.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use nix::sched::{CloneFlags, setns};

use crate::command::{run, run_with_input};
use crate::{leftovers, link, unique};

/// A network namespace with a name under `/run/netns`, removed on drop.
#[derive(Debug)]
pub struct Netns {
    name: String,
    path: PathBuf,
}

impl Netns {
    /// Makes a namespace whose name contains `purpose`, with `lo` up.
    ///
    /// # Errors
    /// The process is not root, or `ip` fails.
    pub fn new(purpose: &str) -> Result<Self> {
        ensure!(
            nix::unistd::geteuid().is_root(),
            "network namespaces need root: run this with `cargo xtask test` or `sudo`"
        );
        leftovers::sweep_once();
        let name = unique::name(purpose);
        run(Command::new("ip").args(["netns", "add", &name]))?;
        let path = Path::new("/run/netns").join(&name);
        let netns = Self { name, path };
        netns.ip("link set lo up")?;
        Ok(netns)
    }

    /// The name, as `ip netns` shows it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file that stands for the namespace, for `nsenter --net=`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A command that will run `program` inside. The program replaces `nsenter`, so the child's
    /// process id is the program's own.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net={}", self.path.display()))
            .arg("--")
            .arg(program);
        command
    }

    /// The link-layer address of `interface`.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn mac(&self, interface: &str) -> Result<[u8; 6]> {
        link::mac(self, interface)
    }

    /// Sends frames on `interface`, one after the other, as they are.
    ///
    /// # Errors
    /// There is no such interface, or it takes no frame.
    pub fn send_frames(
        &self,
        interface: &str,
        frames: impl Iterator<Item = Vec<u8>> + Send,
    ) -> Result<()> {
        self.enter(|| link::send(interface, frames))?
    }

    /// Runs `f` on a thread inside the namespace and returns what it returns. A socket that `f`
    /// makes and returns stays inside.
    ///
    /// # Errors
    /// The namespace cannot be entered.
    ///
    /// # Panics
    /// `f` panics.
    pub fn enter<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T> {
        let file =
            File::open(&self.path).with_context(|| format!("open {}", self.path.display()))?;
        std::thread::scope(|scope| {
            let inside = scope.spawn(move || {
                setns(file, CloneFlags::CLONE_NEWNET)
                    .with_context(|| format!("setns into {}", self.name))?;
                Ok(f())
            });
            match inside.join() {
                Ok(outcome) => outcome,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Runs `ip` inside; `arguments` are split at white space.
    ///
    /// # Errors
    /// `ip` fails.
    pub fn ip(&self, arguments: &str) -> Result<String> {
        run(self.command("ip").args(arguments.split_whitespace()))
    }

    /// Runs many `ip` commands inside, one a line.
    ///
    /// # Errors
    /// One of them fails; the rest is left out.
    pub fn ip_batch(&self, lines: &str) -> Result<()> {
        run_with_input(self.command("ip").args(["-batch", "-"]), lines).map(drop)
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        if let Err(error) = run(Command::new("ip").args(["netns", "delete", &self.name])) {
            eprintln!("namespace {} stays behind: {error:#}", self.name);
        }
    }
}
