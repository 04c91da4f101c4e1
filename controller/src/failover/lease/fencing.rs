//! How it is made sure that a node has lost an address.

use std::time::Duration;

use crate::failover::witnesses::{FEWEST_NODES, WitnessSettings};

/// How it is made sure that a node has lost an address before another one gets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fencing {
    /// By its agent's word; who cannot be asked is taken to be gone.
    #[default]
    None,
    /// By its agent's word, or else by the end of its lease, which the controller alone extends.
    Strict {
        /// How long a lease lasts from the reply that it is extended by.
        lease: Duration,
    },
    /// The same, and witnesses extend leases, too: a majority of them has to promise not to.
    Quorum {
        /// How long a lease lasts from the reply that it is extended by.
        lease: Duration,
        /// The same where there are too few nodes to have witnesses, as if it were strict.
        alone: Duration,
        /// Whom to have as witnesses.
        witnesses: WitnessSettings,
    },
}

impl Fencing {
    /// The word that is configured and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Strict { .. } => "strict",
            Self::Quorum { .. } => "quorum",
        }
    }

    /// How long a lease lasts; `None`: there is none.
    pub const fn lease(self) -> Option<Duration> {
        match self {
            Self::None => None,
            Self::Strict { lease } | Self::Quorum { lease, .. } => Some(lease),
        }
    }

    /// Whom to have as witnesses; `None`: nobody.
    pub const fn witnesses(self) -> Option<WitnessSettings> {
        match self {
            Self::None | Self::Strict { .. } => None,
            Self::Quorum { witnesses, .. } => Some(witnesses),
        }
    }

    /// What that comes to with so many nodes.
    #[must_use]
    pub const fn among(self, nodes: usize) -> Self {
        match self {
            Self::Quorum { alone, .. } if nodes < FEWEST_NODES => Self::Strict { lease: alone },
            Self::None | Self::Strict { .. } | Self::Quorum { .. } => self,
        }
    }
}
