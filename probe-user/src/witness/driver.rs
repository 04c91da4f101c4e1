//! Runs a [`Witness`] over UDP, in a thread of its own: votes leave in time whatever the agent does.

use std::collections::HashMap;
use std::io;
use std::sync::mpsc::{self, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tracing::warn;

use super::core::Witness;
use super::duty_file::DutyFile;
use super::error::{AskError, DutyError};
use super::handle::Handle;
use super::questions::QuestionId;
use super::tally::Tally;
use crate::channel::{AskReport, Duty, Question, WitnessReport};
use crate::session::{ProbeSocket, SocketError, SocketOptions};

/// How often what is counted is shown: that takes as long as there are nodes.
const TALLY_GAP: Duration = Duration::from_millis(100);

/// Why a witness does not run, or not any more.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The sockets failed.
    #[error("the witness cannot probe")]
    Socket(#[from] SocketError),
    /// The thread could not be started.
    #[error("cannot start the witness's thread")]
    Spawn(#[source] io::Error),
    /// The thread panicked.
    #[error("the witness's thread panicked")]
    Panicked,
}

/// What became of a duty.
pub(super) struct Taken {
    pub(super) report: WitnessReport,
    /// It is another one than before.
    pub(super) is_news: bool,
}

pub(super) enum Command {
    TakeOn(Duty, oneshot::Sender<Result<Taken, DutyError>>),
    Ask(Question, oneshot::Sender<Result<AskReport, AskError>>),
}

/// A witness that runs.
pub struct Running(oneshot::Receiver<Result<(), SocketError>>);

impl Running {
    /// Waits until it has ended, which it does by an error, or with its last handle.
    ///
    /// # Errors
    /// If it ended by one.
    pub async fn ended(&mut self) -> Result<(), DriverError> {
        match (&mut self.0).await {
            Ok(result) => Ok(result?),
            // The sender is dropped without a word by a panic only.
            Err(_) => Err(DriverError::Panicked),
        }
    }
}

/// Starts the thread. `file`: where duties to come are recorded.
///
/// # Errors
/// There is no socket or no thread to have.
pub fn start(witness: Witness, file: DutyFile) -> Result<(Handle, Running), DriverError> {
    let socket = ProbeSocket::bind(&SocketOptions::default())?;
    let (commands, receiver) = mpsc::channel();
    let tally = Arc::new(Mutex::new(witness.tally(Instant::now())));
    let instance = witness.instance();
    let handle = Handle::new(instance, commands, socket.waker(), file, tally.clone());
    let driver = Driver {
        witness,
        socket,
        commands: receiver,
        askers: HashMap::new(),
        tally,
        tally_is_due: Instant::now(),
    };
    let (end, ended) = oneshot::channel();
    let run = move || {
        // Nobody may be left to hear of it.
        let _ = end.send(driver.run());
    };
    let thread = thread::Builder::new().name("witness".to_owned()).spawn(run);
    thread.map_err(DriverError::Spawn)?;
    Ok((handle, Running(ended)))
}

struct Driver {
    witness: Witness,
    socket: ProbeSocket,
    commands: mpsc::Receiver<Command>,
    askers: HashMap<QuestionId, oneshot::Sender<Result<AskReport, AskError>>>,
    tally: Arc<Mutex<Tally>>,
    tally_is_due: Instant,
}

impl Driver {
    fn run(mut self) -> Result<(), SocketError> {
        loop {
            self.socket.exchange(self.witness.prober())?;
            let now = Instant::now();
            self.witness.digest(now);
            self.answer();
            if self.tally_is_due <= now {
                self.show_tally(now);
            }
            match self.commands.try_recv() {
                // What it asks for is sent before anything is waited for.
                Ok(command) => self.carry_out(command),
                Err(TryRecvError::Empty) => self.socket.wait(self.witness.next_wake())?,
                Err(TryRecvError::Disconnected) => return Ok(()),
            }
        }
    }

    fn carry_out(&mut self, command: Command) {
        let now = Instant::now();
        match command {
            Command::TakeOn(duty, reply) => {
                let taken = self.take_on(now, &duty);
                // Whoever told it may have gone; it holds all the same.
                let _ = reply.send(taken);
            }
            Command::Ask(question, reply) => match self.witness.ask(now, &question) {
                Ok(id) => {
                    self.askers.insert(id, reply);
                }
                Err(error) => drop(reply.send(Err(error))),
            },
        }
        self.answer();
        self.show_tally(now);
    }

    fn show_tally(&mut self, now: Instant) {
        *self.tally.lock().unwrap_or_else(PoisonError::into_inner) = self.witness.tally(now);
        self.tally_is_due = now + TALLY_GAP;
    }

    fn take_on(&mut self, now: Instant, duty: &Duty) -> Result<Taken, DutyError> {
        let is_known = self.witness.duty() == Some(duty);
        self.witness.take_on(now, duty)?;
        let is_news = !is_known && self.witness.duty() == Some(duty);
        if is_news {
            for (node, reason) in self.witness.not_probed() {
                warn!(node, %reason, "a node that this one is a witness of is not probed");
            }
        }
        let report = self.witness.report(now)?;
        Ok(Taken { report, is_news })
    }

    fn answer(&mut self) {
        while let Some((id, report)) = self.witness.poll_answer() {
            if let Some(asker) = self.askers.remove(&id) {
                // Whoever asked may have gone.
                let _ = asker.send(Ok(report));
            }
        }
    }
}
