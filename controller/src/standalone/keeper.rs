//! Keeps the state file up to date.

use std::sync::Arc;
use std::time::Duration;

use probe_user::logging::in_words;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use super::StateFile;
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

/// Tells a [`StateKeeper`] that there is something to record.
#[derive(Clone, Debug, Default)]
pub(super) struct Unrecorded(Arc<Notify>);

impl Unrecorded {
    pub(super) fn note(&self) {
        self.0.notify_one();
    }
}

/// Has assignments recorded at once.
pub(super) struct Recorder {
    records: watch::Sender<Assignments>,
    recorded: mpsc::UnboundedReceiver<u64>,
}

impl Recorder {
    /// Has `record` recorded instead of the last one.
    pub(super) fn record(&self, record: Assignments) {
        self.records.send_replace(record);
    }

    /// Waits until a record is durable; returns its version.
    pub(super) async fn recorded(&mut self) -> Option<u64> {
        self.recorded.recv().await
    }
}

/// Writes the state file whenever there is something to record, in a task of its own.
pub(super) struct StateKeeper {
    unrecorded: Unrecorded,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl StateKeeper {
    /// `assignments` are those that the file holds; `picks` are kept, too, whenever they change.
    pub(super) fn spawn(
        file: StateFile,
        board: &Arc<Board>,
        metrics: &Metrics,
        assignments: Assignments,
        picks: Picks,
    ) -> (Self, Recorder) {
        let unrecorded = Unrecorded::default();
        let (stop, stopped) = oneshot::channel();
        let durable = assignments.version;
        let (records, wanted) = watch::channel(assignments);
        let (done, recorded) = mpsc::unbounded_channel();
        let keeping = Keeping {
            file,
            board: board.clone(),
            metrics: metrics.clone(),
            unrecorded: unrecorded.clone(),
            stopped,
            picks,
            wanted,
            durable,
            done,
        };
        let task = tokio::spawn(keeping.run());
        let keeper = Self {
            unrecorded,
            stop,
            task,
        };
        (keeper, Recorder { records, recorded })
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
    wanted: watch::Receiver<Assignments>,
    /// The version of those that are.
    durable: u64,
    done: mpsc::UnboundedSender<u64>,
}

impl Keeping {
    async fn run(mut self) {
        loop {
            let stopped = tokio::select! {
                () = self.unrecorded.0.notified() => self.pause(GATHER).await,
                Ok(()) = self.wanted.changed() => false,
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
            let urgent = self.wanted.borrow().version != self.durable;
            if self.pause(if urgent { URGENT_RETRY } else { RETRY }).await {
                return;
            }
        }
    }

    /// Waits, but not beyond the end, or while assignments wait; whether the end came.
    async fn pause(&mut self, time: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(time) => false,
            Ok(()) = self.wanted.changed() => false,
            _ = &mut self.stopped => true,
        }
    }

    /// Writes states and assignments; whether that worked.
    async fn write(&mut self) -> bool {
        let (file, board) = (self.file.clone(), self.board.clone());
        let assignments = self.wanted.borrow_and_update().clone();
        let version = assignments.version;
        let picks = self.picks.borrow_and_update().clone();
        let write = move || file.write(&board.nodes(), &assignments, &picks);
        let problem = match tokio::task::spawn_blocking(write).await {
            Ok(Ok(())) => {
                if std::mem::replace(&mut self.durable, version) != version {
                    // Nobody waits for it if the process ends.
                    let _ = self.done.send(version);
                }
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
