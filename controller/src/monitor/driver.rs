//! Runs a [`Monitor`] over UDP, in a thread of its own: probes leave in time whatever the rest of
//! the process does. Nothing here blocks but the wait for the next datagram or round.

use std::any::Any;
use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use probe_user::keys::NodeKey;
use probe_user::session::{ProbeSocket, Renewal, SocketError, Waker};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use super::{Ask, Monitor, NodeSpec, Notice, Reading, Testimony};
use crate::tenure::Tenure;

/// Why probing ended.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The thread could not be started.
    #[error("cannot start the prober's thread")]
    Spawn(#[source] io::Error),
    /// The sockets failed.
    #[error("probing failed")]
    Socket(#[from] SocketError),
    /// The thread panicked.
    #[error("the prober's thread panicked: {0}")]
    Panicked(String),
}

/// By node: when the newest reply arrived that was echoed in a probe that extended its lease.
pub type Echoed = BTreeMap<String, Instant>;

enum Command {
    Apply(Vec<NodeSpec>),
    Renew(BTreeMap<String, Renewal>, Tenure, UnboundedSender<Echoed>),
    NoteKeys(String, Result<Vec<NodeKey>, String>),
    Testify(Testimony),
    Stop,
}

/// Tells a running monitor what to do. Once it has ended, nothing happens.
#[derive(Clone)]
pub struct Control {
    commands: mpsc::Sender<Command>,
    waker: Waker,
}

impl Control {
    /// See [`Monitor::apply`].
    pub fn apply(&self, specs: Vec<NodeSpec>) {
        self.send(Command::Apply(specs));
    }

    /// See [`Monitor::renew`]. Its result goes to `echoed` once no probe will ask what was asked
    /// before, and never, if the monitor has ended.
    pub fn renew(
        &self,
        renewals: BTreeMap<String, Renewal>,
        tenure: Tenure,
        echoed: UnboundedSender<Echoed>,
    ) {
        self.send(Command::Renew(renewals, tenure, echoed));
    }

    /// See [`Monitor::note_keys`].
    pub fn note_keys(&self, node: &str, held: Result<Vec<NodeKey>, String>) {
        self.send(Command::NoteKeys(node.to_owned(), held));
    }

    /// See [`Monitor::handle_testimony`].
    pub fn testify(&self, testimony: Testimony) {
        self.send(Command::Testify(testimony));
    }

    /// Ends it; [`Running::ended`] says when that is done.
    pub fn stop(&self) {
        self.send(Command::Stop);
    }

    fn send(&self, command: Command) {
        // Whoever waits for `Running::ended` learns that nobody receives any more.
        let _ = self.commands.send(command);
        self.waker.wake();
    }
}

/// A monitor that runs.
pub struct Running {
    thread: Option<JoinHandle<Result<(), SocketError>>>,
    ended: oneshot::Receiver<()>,
}

impl Running {
    fn spawn(
        run: impl FnOnce() -> Result<(), SocketError> + Send + 'static,
    ) -> Result<Self, DriverError> {
        let (end, ended) = oneshot::channel();
        let run = move || {
            let _end: oneshot::Sender<()> = end;
            run()
        };
        let thread = thread::Builder::new()
            .name("prober".to_owned())
            .spawn(run)
            .map_err(DriverError::Spawn)?;
        Ok(Self {
            thread: Some(thread),
            ended,
        })
    }

    /// Waits until it has ended, by [`Control::stop`] or by an error.
    ///
    /// # Errors
    ///
    /// If it ended otherwise than by being stopped; said once.
    pub async fn ended(&mut self) -> Result<(), DriverError> {
        if self.thread.is_none() {
            return Ok(());
        }
        // The sender is dropped, by a panic, too, when the thread has nothing left to do.
        let _ = (&mut self.ended).await;
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result.map_err(DriverError::Socket),
            Some(Err(panic)) => Err(DriverError::Panicked(message(panic.as_ref()).to_owned())),
        }
    }
}

/// Where what comes out of a monitor goes.
#[derive(Clone, Debug)]
pub struct Outputs {
    /// What there is to report.
    pub notices: UnboundedSender<Notice>,
    /// What there is to ask.
    pub asks: UnboundedSender<Ask>,
}

/// Starts the thread.
///
/// # Errors
///
/// If the system has no thread to give.
pub fn spawn(
    monitor: Monitor,
    socket: ProbeSocket,
    outputs: Outputs,
) -> Result<(Control, Running), DriverError> {
    let (commands, receiver) = mpsc::channel();
    let waker = socket.waker();
    let driver = Driver {
        monitor,
        socket,
        commands: receiver,
        outputs,
    };
    let running = Running::spawn(move || driver.run())?;
    Ok((Control { commands, waker }, running))
}

struct Driver {
    monitor: Monitor,
    socket: ProbeSocket,
    commands: mpsc::Receiver<Command>,
    outputs: Outputs,
}

impl Driver {
    fn run(mut self) -> Result<(), SocketError> {
        loop {
            self.socket.exchange(self.monitor.prober())?;
            self.monitor.digest(Reading::take(), self.socket.stats());
            loop {
                match self.commands.try_recv() {
                    Ok(Command::Apply(specs)) => self.monitor.apply(Reading::take(), specs),
                    Ok(Command::Renew(renewals, tenure, echoed)) => {
                        // Whoever asked may have lost interest.
                        let _ = echoed.send(self.monitor.renew(renewals, tenure));
                    }
                    Ok(Command::NoteKeys(node, held)) => {
                        self.monitor.note_keys(Reading::take(), &node, held);
                    }
                    Ok(Command::Testify(testimony)) => {
                        self.monitor.handle_testimony(Reading::take(), &testimony);
                    }
                    Ok(Command::Stop) | Err(mpsc::TryRecvError::Disconnected) => {
                        self.report();
                        return Ok(());
                    }
                    Err(mpsc::TryRecvError::Empty) => break,
                }
            }
            self.monitor.handle_interest(Reading::take());
            self.report();
            let wake = self.monitor.prober().next_wake();
            self.socket.wait(wake)?;
        }
    }

    fn report(&mut self) {
        while let Some(notice) = self.monitor.poll_notice() {
            // Without anyone to report to, nodes are monitored all the same.
            let _ = self.outputs.notices.send(notice);
        }
        while let Some(ask) = self.monitor.poll_ask() {
            // The same goes for questions.
            let _ = self.outputs.asks.send(ask);
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text,
        (None, None) => "no message",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn end_of(
        run: impl FnOnce() -> Result<(), SocketError> + Send + 'static,
    ) -> Result<(), DriverError> {
        Running::spawn(run)?.ended().await
    }

    #[tokio::test]
    async fn a_thread_that_was_stopped_ended_well() {
        end_of(|| Ok(())).await.unwrap();
    }

    #[tokio::test]
    async fn sockets_that_fail_end_it_with_their_error() {
        let error = end_of(|| Err(SocketError::NoFamily)).await.unwrap_err();
        assert!(
            matches!(error, DriverError::Socket(SocketError::NoFamily)),
            "{error}"
        );
    }

    #[tokio::test]
    async fn a_panic_ends_it_with_the_panics_message() {
        let error = end_of(|| panic!("slot {} is gone", 7)).await.unwrap_err();
        assert!(error.to_string().contains("slot 7 is gone"), "{error}");
    }

    #[tokio::test]
    async fn an_end_is_said_once() {
        let mut running = Running::spawn(|| Err(SocketError::NoFamily)).unwrap();
        assert!(running.ended().await.is_err());
        assert!(running.ended().await.is_ok());
    }
}
