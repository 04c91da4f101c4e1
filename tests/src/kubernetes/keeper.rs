//! A thread for processes that outlive the thread that asked for them.

use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};

use crate::Process;

type Task = Box<dyn FnOnce() + Send>;

/// A thread that starts processes: each is killed when the thread that started it ends, and a test that
/// shares what others started ends before they do.
#[derive(Debug)]
pub struct Keeper {
    tasks: Option<Sender<Task>>,
    thread: Option<JoinHandle<()>>,
}

impl Default for Keeper {
    fn default() -> Self {
        let (tasks, received) = channel::<Task>();
        let thread = thread::spawn(move || received.into_iter().for_each(|task| task()));
        Self {
            tasks: Some(tasks),
            thread: Some(thread),
        }
    }
}

impl Keeper {
    /// As [`Process::spawn`], but the process lives until it is dropped or this is.
    ///
    /// # Errors
    /// As there.
    pub fn spawn(&self, name: &str, command: Command, log: &Path) -> Result<Process> {
        let (answer, answered) = channel();
        let (name, log) = (name.to_owned(), log.to_owned());
        let task = move || {
            // Nobody waits for it any more if this fails.
            let _ = answer.send(Process::spawn(&name, &command, &log));
        };
        let tasks = self.tasks.as_ref().context("the keeper is gone")?;
        tasks
            .send(Box::new(task))
            .ok()
            .context("the keeper's thread is gone")?;
        answered.recv().context("the keeper's thread is gone")?
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.tasks.take());
        if let Some(thread) = self.thread.take() {
            // It cannot have panicked: starting a process does not.
            let _ = thread.join();
        }
    }
}
