//! Keeps the state file up to date.

use std::sync::Arc;
use std::time::Duration;

use probe_user::logging::in_words;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::StateFile;
use crate::daemon::{Recorder, Scribe, Unrecorded, Wiring};
use crate::failover::Record as Assignments;
use crate::metrics::Metrics;
use crate::monitor::Board;
use crate::services::Picks;

/// Changes gather for so long before the file is written.
const GATHER: Duration = Duration::from_millis(100);
/// Time between two attempts to write a file that could not be written.
const RETRY: Duration = Duration::from_secs(10);
/// The same while assignments wait for it: nothing moves meanwhile.
const URGENT_RETRY: Duration = Duration::from_secs(1);

/// Writes the state file whenever there is something to record, in a task of its own.
pub(super) struct StateKeeper {
    unrecorded: Unrecorded,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl StateKeeper {
    /// `assignments` are those that the file holds; picks are kept, too, whenever they change.
    pub(super) fn spawn(
        file: StateFile,
        wiring: &Wiring,
        assignments: &Assignments,
    ) -> (Self, Recorder) {
        let unrecorded = Unrecorded::default();
        let (stop, stopped) = oneshot::channel();
        let (recorder, scribe) = Recorder::new(assignments);
        let keeping = Keeping {
            file,
            board: wiring.board.clone(),
            metrics: wiring.metrics.clone(),
            unrecorded: unrecorded.clone(),
            stopped,
            picks: wiring.picks.clone(),
            scribe,
        };
        let task = tokio::spawn(keeping.run());
        let keeper = Self {
            unrecorded,
            stop,
            task,
        };
        (keeper, recorder)
    }

    pub(super) fn unrecorded(&self) -> Unrecorded {
        self.unrecorded.clone()
    }

    /// Writes the file once more and ends.
    pub(super) async fn finish(self) {
        drop(self.stop);
        if let Err(error) = self.task.await {
            tracing::error!(error = %error, "states were not written at the end");
        }
    }
}

struct Keeping {
    file: StateFile,
    board: Arc<Board>,
    metrics: Metrics,
    unrecorded: Unrecorded,
    stopped: oneshot::Receiver<()>,
    /// Who is picked for each service.
    picks: Picks,
    /// The assignments to be recorded.
    scribe: Scribe,
}

impl Keeping {
    async fn run(mut self) {
        loop {
            let stopped = tokio::select! {
                () = self.unrecorded.noted() => self.pause(GATHER).await,
                true = self.scribe.changed() => false,
                Ok(()) = self.picks.changed() => false,
                _ = &mut self.stopped => true,
            };
            let written = self.write().await;
            if stopped {
                return;
            }
            if written {
                continue;
            }
            self.unrecorded.note();
            let urgent = self.scribe.is_behind();
            if self.pause(if urgent { URGENT_RETRY } else { RETRY }).await {
                return;
            }
        }
    }

    /// Waits, but not beyond the end, or while assignments wait; whether the end came.
    async fn pause(&mut self, time: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(time) => false,
            true = self.scribe.changed() => false,
            _ = &mut self.stopped => true,
        }
    }

    /// Writes states and assignments; whether that worked.
    async fn write(&mut self) -> bool {
        let (file, board) = (self.file.clone(), self.board.clone());
        let assignments = self.scribe.wanted();
        let version = assignments.version;
        let picks = self.picks.borrow_and_update().clone();
        let write = move || file.write(&board.nodes(), &assignments, &picks);
        let problem = match tokio::task::spawn_blocking(write).await {
            Ok(Ok(())) => {
                self.scribe.note_durable(version);
                return true;
            }
            Ok(Err(error)) => in_words(&error),
            Err(panic) => panic.to_string(),
        };
        self.metrics.state_write_failures.inc();
        tracing::error!(error = problem, "states are not kept over a restart");
        false
    }
}
