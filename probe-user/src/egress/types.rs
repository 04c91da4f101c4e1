//! What a node shall hold, and what became of it.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::kernel::WitnessSet;

/// How an address is claimed that the node does not hold yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Claim {
    /// Only if nobody answers for it.
    First,
    /// At once: its owner is gone, or has released it. Somebody who answers for it is reported.
    Failover,
}

/// An egress IP that the node shall hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EgressIp {
    /// Name of the gateway to which it belongs.
    pub gateway: String,
    /// The address.
    pub address: IpAddr,
    /// How it is claimed.
    pub claim: Claim,
    /// Whose traffic leaves from it.
    pub sources: Vec<IpNet>,
    /// Where it is configured; `None`: on the interface whose subnet holds it.
    pub interface: Option<String>,
    /// It is routed to the node, not resolved on a link: configured on the loopback interface, and
    /// not announced.
    pub routed: bool,
}

/// A gateway whose egress IPs the node may be given. Traffic of its sources leaves from one of them
/// or not at all, as long as it would leave by an interface where they belong.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Gateway {
    /// Its name.
    pub name: String,
    /// All its egress IPs, whoever holds them: these prefixes together, and nothing else.
    pub egress_ips: Vec<IpNet>,
    /// Whose traffic leaves from them.
    pub sources: Vec<IpNet>,
    /// Where they are configured; `None`: on the interface whose subnet holds them.
    pub interface: Option<String>,
    /// They are routed to the node, so that no interface is theirs: nothing is held back.
    pub routed: bool,
}

/// All that the node shall hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Desired {
    /// The assignment epoch: the controller's term in the upper 32 bits, a counter in the lower
    /// ones.
    pub epoch: u64,
    /// The whole set.
    pub addresses: Vec<EgressIp>,
    /// Every gateway of which the node is a candidate.
    #[serde(default)]
    pub gateways: Vec<Gateway>,
    /// The longest lease that any probe may give the node, ms: while it has none, nothing leaves from
    /// the egress IPs of its gateways. 0: they are not fenced.
    #[serde(default)]
    pub lease_ms: u32,
    /// Whose votes extend the node's lease; `None`: nobody's, as version 0.
    #[serde(default)]
    pub witnesses: Option<WitnessSet>,
}

/// What became of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressReport {
    /// The address.
    pub address: IpAddr,
    /// What became of it.
    pub state: AddressState,
}

/// What became of an address on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressState {
    /// The node holds it.
    Configured,
    /// The node holds it, and has told its neighbours.
    Announced,
    /// Somebody else answers for it.
    Duplicate {
        /// Their link-layer address.
        mac: [u8; 6],
    },
    /// The node failed to do with it what it should.
    Failed {
        /// Why, for people.
        error: String,
    },
}

impl AddressState {
    /// The state in a word, as metrics and reports have it.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Configured => "configured",
            Self::Announced => "announced",
            Self::Duplicate { .. } => "duplicate",
            Self::Failed { .. } => "failed",
        }
    }
}
