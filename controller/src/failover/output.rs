//! What the planner says.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use probe_user::egress::Desired;
use serde::{Deserialize, Serialize};

use super::{Duty, Record, Renewals};

/// Why an egress IP leaves its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Cause {
    /// The owner is UNREACHABLE.
    Unreachable,
    /// The owner is not configured any more.
    Deleted,
    /// The gateway does not select the owner any more.
    Unselected,
    /// The owner is drained on purpose.
    Drained,
    /// The node that it was moved away from is back for long enough, and `failback` says so.
    Failback,
    /// It belongs to no gateway any more.
    Withdrawn,
}

impl Cause {
    /// The word that is shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "Unreachable",
            Self::Deleted => "Deleted",
            Self::Unselected => "Unselected",
            Self::Drained => "Drained",
            Self::Failback => "Failback",
            Self::Withdrawn => "Withdrawn",
        }
    }

    /// Whether the owner is better than nobody until another node takes over.
    pub(super) const fn needs_target(self) -> bool {
        matches!(self, Self::Drained | Self::Failback)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The steps of a move, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// The owner is asked to release the address; of one that is gone nobody asks.
    Revoke,
    /// Until the owner cannot use the address any more, whatever it does: its agent confirms, or its
    /// lease ends. Without a fence nothing can make sure of that: the step is passed at once.
    Safe,
    /// The new owner is being recorded.
    Record,
    /// The new owner has been told, and configures the address.
    Place,
    /// It tells its neighbours.
    Announce,
}

impl Phase {
    /// The word that is shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Revoke => "revoke",
            Self::Safe => "safe",
            Self::Record => "record",
            Self::Place => "place",
            Self::Announce => "announce",
        }
    }
}

/// What is to be done, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Make this durable, then say so with
    /// [`handle_recorded`](super::Planner::handle_recorded); nothing is decided until then.
    Record(Record),
    /// Tell the node's agent to hold exactly this. The newest one alone counts.
    Apply {
        /// The node.
        node: Arc<str>,
        /// The whole set, and its assignment epoch.
        desired: Desired,
    },
    /// Have the prober extend these leases, and no others, then say so with
    /// [`handle_renewed`](super::Planner::handle_renewed).
    Renew(Renewals),
    /// Tell the node's agent that this is its duty as a witness. The newest one alone counts.
    Witness {
        /// The node.
        node: Arc<str>,
        /// All of it; `None`: it has no more, and has said so.
        duty: Option<Duty>,
    },
    /// Tell people.
    Event(Event),
}

/// Something to tell people.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// An address has a new owner, or none; it is recorded.
    Moved {
        /// Its gateway.
        gateway: String,
        /// The address.
        address: IpAddr,
        /// The owner before.
        from: Option<Arc<str>>,
        /// The owner now.
        to: Option<Arc<str>>,
        /// Why it left; `None`: it had no owner.
        cause: Option<Cause>,
    },
    /// An address stays with an owner that it was to leave, and need not leave any more.
    Aborted {
        /// Its gateway.
        gateway: String,
        /// The address.
        address: IpAddr,
        /// The owner.
        node: Arc<str>,
    },
    /// The new owner announced an address.
    Completed {
        /// Its gateway.
        gateway: String,
        /// The address.
        address: IpAddr,
        /// The owner.
        node: Arc<str>,
        /// How long each step took.
        phases: Vec<(Phase, Duration)>,
    },
    /// So many of so many nodes were lost at once: moves away from lost nodes are held.
    Held {
        /// How many were lost.
        lost: usize,
        /// Of how many.
        of: usize,
    },
    /// Moves go on.
    Resumed,
    /// A node has fallen too often.
    Damped {
        /// The node.
        node: Arc<str>,
        /// How long it must be AVAILABLE without a break before it gets addresses again.
        hold: Duration,
    },
    /// A damped node may get addresses again.
    Released {
        /// The node.
        node: Arc<str>,
    },
}
