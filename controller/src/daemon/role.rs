//! Whether a controller decides, and where it has its decisions recorded.

use tokio::sync::{mpsc, watch};

use crate::failover::Record;
use crate::tenure::Tenure;

/// What a controller is.
pub(crate) enum Role {
    /// It decides.
    Leader(Box<Mandate>),
    /// It probes, and is ready to decide; another one does, or nobody.
    Follower,
}

/// By what a controller decides.
pub(crate) struct Mandate {
    /// What was recorded last.
    pub(crate) record: Record,
    pub(crate) recorder: Recorder,
    pub(crate) tenure: Tenure,
}

/// Has assignments recorded.
pub(crate) struct Recorder {
    records: watch::Sender<Record>,
    recorded: mpsc::UnboundedReceiver<u64>,
}

impl Recorder {
    /// Beside the one who writes. `record` is what was recorded last.
    pub(crate) fn new(record: &Record) -> (Self, Scribe) {
        let (records, wanted) = watch::channel(record.clone());
        let (done, recorded) = mpsc::unbounded_channel();
        let scribe = Scribe {
            durable: record.version,
            wanted,
            done,
        };
        (Self { records, recorded }, scribe)
    }

    /// Has `record` recorded instead of the last one.
    pub(crate) fn record(&self, record: Record) {
        self.records.send_replace(record);
    }

    /// Waits until a record is durable; returns its version.
    pub(crate) async fn recorded(&mut self) -> Option<u64> {
        self.recorded.recv().await
    }
}

/// What a [`Recorder`] asks for, for whoever writes.
pub(crate) struct Scribe {
    /// The version that is durable.
    durable: u64,
    wanted: watch::Receiver<Record>,
    done: mpsc::UnboundedSender<u64>,
}

impl Scribe {
    /// Waits until another record is wanted; `false`: none will be.
    pub(crate) async fn changed(&mut self) -> bool {
        self.wanted.changed().await.is_ok()
    }

    /// The record that is wanted now.
    pub(crate) fn wanted(&mut self) -> Record {
        self.wanted.borrow_and_update().clone()
    }

    /// Whether that is not durable yet.
    pub(crate) fn is_behind(&self) -> bool {
        self.wanted.borrow().version != self.durable
    }

    /// Takes note that a record is durable.
    pub(crate) fn note_durable(&mut self, version: u64) {
        if std::mem::replace(&mut self.durable, version) != version {
            // Nobody waits for it if the process ends.
            let _ = self.done.send(version);
        }
    }
}
