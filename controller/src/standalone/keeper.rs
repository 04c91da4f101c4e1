//! Keeps the state file up to date.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

use super::StateFile;
use super::report::chain;
use crate::metrics::Metrics;
use crate::monitor::Board;

/// Changes gather for so long before the file is written.
const GATHER: Duration = Duration::from_millis(100);
/// Time between two attempts to write a file that could not be written.
const RETRY: Duration = Duration::from_secs(10);

/// Tells a [`StateKeeper`] that there is something to record.
#[derive(Clone, Debug, Default)]
pub(super) struct Unrecorded(Arc<Notify>);

impl Unrecorded {
    pub(super) fn note(&self) {
        self.0.notify_one();
    }
}

/// Writes the state file whenever there is something to record, in a task of its own.
pub(super) struct StateKeeper {
    unrecorded: Unrecorded,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl StateKeeper {
    pub(super) fn spawn(file: StateFile, board: Arc<Board>, metrics: Metrics) -> Self {
        let unrecorded = Unrecorded::default();
        let (stop, stopped) = oneshot::channel();
        let keeping = Keeping {
            file,
            board,
            metrics,
            unrecorded: unrecorded.clone(),
            stopped,
        };
        let task = tokio::spawn(keeping.run());
        Self {
            unrecorded,
            stop,
            task,
        }
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
}

impl Keeping {
    async fn run(mut self) {
        loop {
            let stopped = tokio::select! {
                () = self.unrecorded.0.notified() => self.pause(GATHER).await,
                _ = &mut self.stopped => true,
            };
            let written = self.write().await;
            if stopped || (!written && self.pause(RETRY).await) {
                return;
            }
            if !written {
                self.unrecorded.note();
            }
        }
    }

    /// Waits, but not beyond the end; whether that came.
    async fn pause(&mut self, time: Duration) -> bool {
        tokio::time::timeout(time, &mut self.stopped).await.is_ok()
    }

    /// Writes the states; whether that worked.
    async fn write(&self) -> bool {
        let (file, board) = (self.file.clone(), self.board.clone());
        let written = tokio::task::spawn_blocking(move || file.write(&board.nodes())).await;
        let problem = match written {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => chain(&error),
            Err(panic) => panic.to_string(),
        };
        self.metrics.state_write_failures.inc();
        tracing::error!(error = problem, "states are not kept over a restart");
        false
    }
}
