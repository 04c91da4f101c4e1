//! What the main loop tells whoever only looks: metrics and readiness.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::checks::CheckState;
use super::reflector::{Kind, View};
use super::tunnels::TunnelStatus;
use crate::kernel::{Attachment, Fence, Fenced, NotFenced};

/// The agent as it stands.
pub(super) struct Status {
    /// A view on the reflector's state.
    pub(super) view: View,
    /// Where the reflector runs.
    pub(super) kind: Kind,
    /// Where it is attached.
    pub(super) attachments: Vec<Attachment>,
    /// The local checks.
    pub(super) checks: Vec<Arc<CheckState>>,
    /// Beats so far.
    pub(super) beats: u64,
    /// Ticks without a beat, since a check failed.
    pub(super) withheld: u64,
    /// How often the attachments have changed.
    pub(super) changes: u64,
    /// What the fence has counted; `None`: there is none.
    pub(super) fence: Option<Fence>,
    /// The devices that need a fence, and whether they have one.
    pub(super) fenced: Vec<Result<Fenced, NotFenced>>,
    /// What the tunnel counters have counted, and where.
    pub(super) tunnels: TunnelStatus,
}

/// The status, shared.
#[derive(Clone)]
pub(super) struct SharedStatus(Arc<Mutex<Status>>);

impl SharedStatus {
    pub(super) fn new(status: Status) -> Self {
        Self(Arc::new(Mutex::new(status)))
    }

    /// The status, for a moment.
    pub(super) fn lock(&self) -> MutexGuard<'_, Status> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for SharedStatus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SharedStatus")
            .finish_non_exhaustive()
    }
}
