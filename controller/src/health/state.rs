//! The words for a node's state and for why it is in it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is known of a node.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "UPPERCASE")]
pub enum State {
    /// Not monitored, or not yet decided: no determination may be made from it.
    #[default]
    Unknown,
    /// Its dataplane answers and its agent is alive.
    Available,
    /// Its dataplane answers, its agent is silent: nothing new is placed there, nothing is moved
    /// away.
    Unavailable,
    /// Its dataplane does not answer: everything is moved away.
    Unreachable,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 4] = [
        Self::Unknown,
        Self::Available,
        Self::Unavailable,
        Self::Unreachable,
    ];

    /// The word that is shown, in capitals.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "UNKNOWN",
            Self::Available => "AVAILABLE",
            Self::Unavailable => "UNAVAILABLE",
            Self::Unreachable => "UNREACHABLE",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Why a node is in its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Reason {
    /// Nobody is interested in the node, or it has been deleted.
    NotMonitored,
    /// Monitoring has begun, and nothing is known yet.
    NotYetDecided,
    /// Monitoring is switched off.
    MonitoringDisabled,
    /// A reply says that the agent is up.
    AgentUp,
    /// A reply says that the agent is silent.
    AgentSilent,
    /// No reply of any kind for longer than the timeout, to nobody who was asked either.
    NoReply,
    /// No reply of any kind for longer than the timeout; others hear the node, or its tunnels,
    /// but its lease is over.
    LeaseOver,
    /// No reply of any kind for longer than the timeout, to nobody who was asked either; but others
    /// have received packets from the node's tunnels meanwhile, which won it time.
    TunnelsOnly,
    /// The node has no address that could be probed.
    NoAddress,
    /// UNAVAILABLE for longer than is accepted.
    UnavailableTooLong,
}

impl Reason {
    /// The word that is shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotMonitored => "NotMonitored",
            Self::NotYetDecided => "NotYetDecided",
            Self::MonitoringDisabled => "MonitoringDisabled",
            Self::AgentUp => "AgentUp",
            Self::AgentSilent => "AgentSilent",
            Self::NoReply => "NoReply",
            Self::LeaseOver => "LeaseOver",
            Self::TunnelsOnly => "TunnelsOnly",
            Self::NoAddress => "NoAddress",
            Self::UnavailableTooLong => "UnavailableTooLong",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
