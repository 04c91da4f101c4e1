//! Cuts links and mends them, at a time that is known.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use pulsepath_tests::{Cluster, LinkState};

/// An `ip` that waits for commands. Starting one takes longer than the link takes to go down, and
/// would blur the time of the cut.
pub(crate) struct Switch {
    process: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Switch {
    pub(crate) fn new(cluster: &Cluster) -> Self {
        let mut process = cluster
            .hub()
            .command("ip")
            .args(["-oneline", "-batch", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let commands = process.stdin.take();
        let answers = BufReader::new(process.stdout.take().unwrap());
        Self {
            process,
            commands,
            answers,
        }
    }

    /// Sets the link of node `index`; it is set when this returns.
    pub(crate) fn set(&mut self, cluster: &Cluster, index: u8, state: LinkState) {
        let commands = self.commands.as_mut().unwrap();
        let port = cluster.node(index).port();
        // The answer to the second command says that the first is done.
        write!(commands, "link set {port} {state}\nlink show dev lo\n").unwrap();
        commands.flush().unwrap();
        self.answers.read_line(&mut String::new()).unwrap();
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        // The end of its commands ends the process.
        self.commands = None;
        let _ = self.process.wait();
    }
}
