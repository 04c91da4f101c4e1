//! What the controller's HTTP interface says, as JSON: the types that its server and its clients
//! share.
//!
//! - `GET /v1/nodes` answers a [`NodeList`],
//! - `GET /v1/nodes/{name}` a [`Node`], or status 404 and an [`Error`],
//! - `GET /v1/transitions` never ends: one [`StreamLine`] a line, as things happen,
//! - `GET /v1/gateways` answers a [`GatewayList`],
//! - `GET /v1/explain/{node or egress IP}` an [`Explanation`], or status 404 and an [`Error`],
//! - `GET /v1/services` a [`ServiceList`],
//! - `GET /v1/tunnels` a [`TunnelMatrix`], after asking all nodes, which takes up to two seconds,
//! - `POST /v1/nodes/{name}/drain` and `.../undrain` answer [`Drained`] once that is recorded, or
//!   status 404 and an [`Error`].

mod failover;
mod services;
mod tunnels;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use self::failover::{
    Candidate, Cause, Drained, EgressIp, Explanation, Failover, Gateway, GatewayList, Lease, Phase,
    Report, ReportState, Witness,
};
pub use self::services::{Service, ServiceList};
pub use self::tunnels::{TunnelDetail, TunnelMatrix, TunnelNode, TunnelPair, TunnelTraffic};
pub use crate::health::{Reason, State};

/// A point in time; on the wire RFC 3339 in UTC with milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub SystemTime);

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_rfc3339_millis(self.0).fmt(f)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        humantime::parse_rfc3339(&text)
            .map(Self)
            .map_err(serde::de::Error::custom)
    }
}

/// Every node that is configured, and who says so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeList {
    /// The controller that answers.
    pub controller: Controller,
    /// Ordered by name.
    pub nodes: Vec<Node>,
}

/// The controller that answers, and by which settings it judges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Controller {
    /// Its version.
    pub version: String,
    /// When it started.
    pub started: Timestamp,
    /// Time between two probes of a node, ms.
    pub period_ms: f64,
    /// Silence after which a node is UNREACHABLE, ms; 0: nothing is monitored.
    pub timeout_ms: f64,
    /// How late its probes left, lately, ms: what it must not blame on nodes.
    pub lag_ms: f64,
    /// Whether it decides about egress IPs.
    pub leads: bool,
    /// Who does, where several controllers could; unset: nobody, or there is only this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
}

/// What the controller knows of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: State,
    /// When it got into that state.
    pub since: Timestamp,
    /// Why it is in that state.
    pub reason: Reason,
    /// How long ago its last reply of any kind arrived, ms; absent: none arrived since the controller
    /// began to probe it.
    pub last_reply_ago_ms: Option<f64>,
    /// Round-trip times since probing began; absent before the first reply.
    pub round_trip: Option<RoundTrip>,
    /// Share of the last probes (at most 64) that stayed without a reply, 0 to 1; absent before
    /// the first outcome.
    pub loss: Option<f64>,
    /// What the last reply says of the node's agent.
    pub agent: Option<Agent>,
    /// How long ago it received a packet of a tunnel, by its last reply, ms; absent: it never did, or
    /// counts none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tunnel_age_ms: Option<f64>,
    /// How much longer its lease lasts, by its last reply, ms; absent: it holds none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_left_ms: Option<f64>,
    /// Hexadecimal; another one means that the node's kernel began anew.
    pub incarnation: Option<String>,
    /// The addresses that are probed.
    pub addresses: Vec<Address>,
    /// From the configuration.
    pub labels: BTreeMap<String, String>,
    /// Its probe keys.
    pub keys: Keys,
    /// What else deserves attention.
    pub conditions: Vec<Condition>,
}

/// Which probe keys a node shall have, and has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keys {
    /// Ids of those that the controller has for it: current, and in a rotation next.
    pub valid: Vec<u16>,
    /// Ids of those that its agent has confirmed; empty: it was not asked, or has not answered.
    pub confirmed: Vec<u16>,
}

/// Round-trip times, seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundTrip {
    /// Of the last reply.
    pub last: f64,
    /// Moving average with weight 1/8 for each new one.
    pub average: f64,
    /// The shortest.
    pub min: f64,
    /// The longest.
    pub max: f64,
}

/// A node's agent, as its kernel sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    /// Its last beat has not expired.
    pub up: bool,
    /// It was asked to stop.
    pub draining: bool,
    /// Its local checks pass, or none are configured.
    pub checks_ok: bool,
    /// Since its last beat, ms; absent: it never gave one.
    pub beat_age_ms: Option<u32>,
}

/// An address of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Address {
    /// The address.
    pub address: IpAddr,
    /// It answered within the timeout.
    pub answering: bool,
    /// How long ago its last reply arrived, ms.
    pub last_reply_ago_ms: Option<f64>,
}

/// Something about a node that deserves attention, whatever its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// One word, for programs.
    pub name: String,
    /// A sentence, for people.
    pub message: String,
}

/// A node went from one state to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transition {
    /// Grows by one with each transition of this controller process, from 1.
    pub sequence: u64,
    /// When it was decided.
    pub at: Timestamp,
    /// Of which node.
    pub node: String,
    /// The state before.
    pub from: State,
    /// The state now.
    pub to: State,
    /// Why.
    pub reason: Reason,
    /// How long the node had been silent until then, ms, without time that the prober blames on
    /// itself.
    pub silence_ms: f64,
    /// When the last reply of any kind arrived.
    pub last_reply: Option<Timestamp>,
    /// When the last packet from its tunnels was received, if that won it time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_tunnel_packet: Option<Timestamp>,
    /// How much later than it should have been this was decided, ms, since the controller itself
    /// was late.
    pub lag_ms: f64,
}

/// A line of the stream of transitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum StreamLine {
    /// A transition.
    Transition(Transition),
    /// The client was too slow.
    Missed {
        /// So many transitions were not sent; ask for the present states.
        missed: u64,
    },
}

/// Why a request was not answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Error {
    /// For people.
    pub error: String,
}

/// Milliseconds with a fraction, as the interface gives lengths of time.
pub fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
