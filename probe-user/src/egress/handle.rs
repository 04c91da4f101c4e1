//! How the rest of the agent speaks to the task that applies egress IPs.

use tokio::sync::{mpsc, oneshot, watch};

use super::types::{AddressReport, Desired};

/// Why a set of egress IPs was refused. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The node has applied a newer one.
    #[error("epoch {epoch} is older than {applied}, which this node has applied")]
    OlderEpoch {
        /// The epoch of the set that was refused.
        epoch: u64,
        /// The epoch that is in force.
        applied: u64,
    },
    /// The node has been told a newer witness set.
    #[error("witness set {version} is older than {applied}, which this node has been told")]
    OlderWitnesses {
        /// The version of the set that was refused.
        version: u64,
        /// The version that it was told.
        applied: u64,
    },
    /// The set is meant for what the node was before it was rebooted or detached.
    #[error("the node's incarnation is {node:016x}, not {meant:016x}")]
    WrongIncarnation {
        /// Whom the set was meant for.
        meant: u64,
        /// The node's incarnation.
        node: u64,
    },
    /// The set cannot be recorded, so that a restart would forget it.
    #[error("the set cannot be recorded: {0}")]
    NotRecorded(String),
    /// The agent is stopping.
    #[error("the agent is stopping")]
    Stopping,
}

/// What the node holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The newest epoch that took effect; 0: none yet.
    pub applied_epoch: u64,
    /// The node's incarnation.
    pub incarnation: u64,
    /// Every egress IP that the node should hold, and any that it could not get rid of.
    pub addresses: Vec<AddressReport>,
    /// What is wrong on the node besides single addresses, for people.
    pub problems: Vec<String>,
    /// Of which devices the node's egress IPs may leave without a lease, and why.
    pub not_fenced: Vec<String>,
    /// Version of the witness set in force.
    pub witness_version: u64,
    /// What the agent has done since it started.
    pub counters: Counters,
}

/// What the agent has done about egress IPs since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Addresses put on an interface.
    pub added: u64,
    /// Addresses taken off.
    pub removed: u64,
    /// Announcements sent: gratuitous ARP, unsolicited NA.
    pub announcements: u64,
    /// Messages of others who claim one of the node's egress IPs.
    pub conflicts: u64,
    /// Conntrack entries deleted.
    pub flushed: u64,
    /// Steps that failed.
    pub failures: u64,
}

pub(super) struct Request {
    pub(super) desired: Desired,
    pub(super) incarnation: u64,
    pub(super) reply: oneshot::Sender<Result<Status, ApplyError>>,
}

/// A handle on the task that applies egress IPs.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(super) requests: mpsc::Sender<Request>,
    pub(super) status: watch::Receiver<Status>,
}

impl Handle {
    /// Makes the node hold exactly these egress IPs, and returns once removals and additions are
    /// done: at once, or after the duplicate probe (300 ms at most) where an address is claimed for
    /// the first time. `incarnation` is the one that the node is believed to be in; 0: not known.
    ///
    /// # Errors
    /// See [`ApplyError`]. An address that could not be claimed is no error, but in the report.
    pub async fn apply(&self, desired: Desired, incarnation: u64) -> Result<Status, ApplyError> {
        let (reply, answer) = oneshot::channel();
        let request = Request {
            desired,
            incarnation,
            reply,
        };
        let sent = self.requests.send(request).await;
        sent.map_err(|_| ApplyError::Stopping)?;
        answer.await.map_err(|_| ApplyError::Stopping)?
    }

    /// What the node holds now.
    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }
}
