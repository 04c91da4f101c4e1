//! How the rest of the agent speaks to the witness.

use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedMutexGuard, oneshot};
use tokio::task::spawn_blocking;
use tracing::info;

use super::driver::{Command, Taken};
use super::duty_file::DutyFile;
use super::error::{AskError, DutyError};
use super::tally::Tally;
use crate::channel::{AskReport, Duty, KeptFileError, Question, WitnessReport};
use crate::session::Waker;

/// Why a witness does not do what it was told.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// It refuses the duty.
    #[error(transparent)]
    Duty(#[from] DutyError),
    /// It cannot answer the question.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// The duty is in force, but would not survive the agent.
    #[error("the duty cannot be recorded")]
    NotRecorded(#[from] KeptFileError),
    /// The agent is stopping.
    #[error("the agent is stopping")]
    Stopping,
}

/// A handle on a witness that runs.
#[derive(Clone, Debug)]
pub struct Handle {
    instance: Option<u64>,
    commands: mpsc::Sender<Command>,
    waker: Waker,
    file: DutyFile,
    /// Whether the duty in force is recorded. Held while one is taken on, so that the file never gets
    /// an older one after a newer one.
    is_recorded: Arc<tokio::sync::Mutex<bool>>,
    tally: Arc<Mutex<Tally>>,
}

impl Handle {
    pub(super) fn new(
        instance: Option<u64>,
        commands: mpsc::Sender<Command>,
        waker: Waker,
        file: DutyFile,
        tally: Arc<Mutex<Tally>>,
    ) -> Self {
        Self {
            instance,
            commands,
            waker,
            file,
            is_recorded: Arc::new(true.into()),
            tally,
        }
    }

    /// Which witness this is; `None`: the node cannot be one.
    pub fn instance(&self) -> Option<u64> {
        self.instance
    }

    /// See [`Witness::take_on`](super::Witness::take_on). Returns once floors are stored and the duty
    /// is recorded. Needs a tokio runtime.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn take_on(&self, duty: Duty) -> Result<WitnessReport, Failure> {
        let mut is_recorded = self.is_recorded.clone().lock_owned().await;
        let (version, nodes) = (duty.version, duty.watched.len());
        let names_witness = duty.instance.is_some();
        let tell = |reply| Command::TakeOn(duty.clone(), reply);
        let Taken { report, is_news } = self.tell(tell).await??;
        if is_news {
            info!(version, nodes, "took on another duty as a witness");
            *is_recorded = false;
        }
        if names_witness && !*is_recorded {
            self.record(duty, is_recorded).await?;
        }
        Ok(report)
    }

    /// See [`Witness::ask`](super::Witness::ask).
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn ask(&self, question: Question) -> Result<AskReport, Failure> {
        let tell = |reply| Command::Ask(question, reply);
        Ok(self.tell(tell).await??)
    }

    /// What it does, and what came of it.
    pub fn tally(&self) -> Tally {
        *self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn tell<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, Failure> {
        let (reply, answer) = oneshot::channel();
        let sent = self.commands.send(command(reply));
        sent.map_err(|_| Failure::Stopping)?;
        self.waker.wake();
        answer.await.map_err(|_| Failure::Stopping)
    }

    /// Goes on to its end even if nobody waits for it any more.
    async fn record(
        &self,
        duty: Duty,
        mut is_recorded: OwnedMutexGuard<bool>,
    ) -> Result<(), Failure> {
        let file = self.file.clone();
        let record = move || {
            let written = file.write(duty);
            *is_recorded = written.is_ok();
            written
        };
        let written = spawn_blocking(record).await;
        // It panicked, or the runtime ends.
        Ok(written.map_err(|_| Failure::Stopping)??)
    }
}
