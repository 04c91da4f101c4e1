//! What the interface says of gateways and of moves.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::{State, Timestamp};
pub use crate::failover::{Cause, Phase};

/// Every gateway, and by which rules addresses move.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GatewayList {
    /// How failover stands.
    pub failover: Failover,
    /// Ordered by name.
    pub gateways: Vec<Gateway>,
}

/// How failover stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failover {
    /// Otherwise states are shown, and nothing is moved.
    pub enabled: bool,
    /// How it is made sure that an old owner is silent, with as many nodes as there are.
    pub fencing: String,
    /// How long a lease lasts from the reply that it is extended by, ms; absent: there is none.
    #[serde(default)]
    pub lease_ms: Option<u64>,
    /// Who extends leases beside the controller.
    #[serde(default)]
    pub witnesses: Vec<Witness>,
    /// Egress IPs that do not leave an owner, since too few of its witnesses promise not to extend its
    /// lease.
    #[serde(default)]
    pub no_quorum: usize,
    /// The term in which this controller decides.
    pub term: u32,
    /// Why moves are held, if they are.
    pub held: Option<String>,
    /// A record is not durable yet: nothing is decided until it is.
    pub recording: bool,
    /// Nodes that are drained on purpose.
    pub drained: Vec<String>,
}

/// An agent whose votes extend nodes' leases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Witness {
    /// Its node.
    pub node: String,
    /// Its instance id, 16 hexadecimal digits: another one whenever it has lost its memory.
    pub instance: String,
    /// Since it last answered the controller, ms, or since this controller first asked it.
    pub silent_ms: u64,
}

/// Who extends a node's lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The nodes whose agents vote for it; a majority of them extends it without the controller.
    pub witnesses: Vec<String>,
    /// Whether the node has confirmed that.
    pub confirmed: bool,
    /// The oldest applied assignment epoch for which it is extended.
    pub floor: u64,
}

/// A gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gateway {
    /// Its name.
    pub name: String,
    /// Whether it serves only those of its sources that no other gateway names.
    pub cluster_default: bool,
    /// The nodes that it selects.
    pub candidates: Vec<Candidate>,
    /// Its egress IPs.
    pub addresses: Vec<EgressIp>,
}

/// A node that a gateway selects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// The node.
    pub node: String,
    /// Its state.
    pub state: State,
    /// Why it gets no new address, if it does not.
    pub barred: Option<String>,
    /// Who extends its lease; absent: it has none.
    #[serde(default)]
    pub lease: Option<Lease>,
}

/// An egress IP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EgressIp {
    /// The address.
    pub address: IpAddr,
    /// Who owns it; absent: nobody.
    pub owner: Option<String>,
    /// Since when it is so.
    pub since: Timestamp,
    /// Why it has no owner, if it has none.
    pub unassigned: Option<String>,
    /// Why it left its last owner.
    pub cause: Option<Cause>,
    /// The step of the move that is under way.
    pub phase: Option<Phase>,
    /// Why a move that is due does not begin or go on.
    pub held: Option<String>,
    /// What the owner's agent says of it.
    pub report: Option<Report>,
}

/// What the owner's agent says of an address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// What became of it.
    pub state: ReportState,
    /// Whoever else answers for it.
    pub duplicate_mac: Option<String>,
    /// Why it failed.
    pub error: Option<String>,
}

/// What became of an address on its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ReportState {
    /// The node holds it.
    Configured,
    /// The node holds it, and has told its neighbours.
    Announced,
    /// Somebody else answers for it.
    Duplicate,
    /// The node failed to do with it what it should.
    Error,
}

impl ReportState {
    /// The word that is shown, in capitals.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Configured => "CONFIGURED",
            Self::Announced => "ANNOUNCED",
            Self::Duplicate => "DUPLICATE",
            Self::Error => "ERROR",
        }
    }
}

/// Why something is as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The node or the egress IP.
    pub subject: String,
    /// Sentences for people, the most important one first.
    pub sentences: Vec<String>,
}

/// What became of a request to drain a node, or to end that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drained {
    /// The node.
    pub node: String,
    /// Whether it is drained now; this is recorded.
    pub drained: bool,
    /// The egress IPs that it still owns.
    pub addresses: Vec<IpAddr>,
}
