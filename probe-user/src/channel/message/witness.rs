//! What a controller has witnesses do, and what they answer.

use std::collections::HashSet;
use std::net::IpAddr;
use std::time::Duration;

use super::{Malformed, convert, parse_address, proto};
use crate::keys::NodeKeys;

/// The longest time that a question may wait.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
const PERIODS_MS: std::ops::RangeInclusive<u32> = 10..=60_000;

/// All that a witness shall do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duty {
    /// The controller's term in the upper 32 bits, a counter in the lower ones.
    pub version: u64,
    /// The witness that is meant; `None`: whichever it is, and then nothing is changed.
    pub instance: Option<u64>,
    /// All that it shall probe all the time, each node once.
    pub watched: Vec<Watched>,
    /// Time between two probes of one node, 10 ms to 60 s.
    pub period: Duration,
    /// The lease that a vote asks for; whole milliseconds.
    pub lease: Duration,
    /// UDP port of the nodes' reflectors, not 0.
    pub port: u16,
}

/// A node that a witness probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// Its name and its probe keys.
    pub keys: NodeKeys,
    /// Its management addresses.
    pub addresses: Vec<IpAddr>,
    /// The oldest applied epoch for which a vote is meant.
    pub floor: u64,
    /// Whether to vote for it.
    pub vote: bool,
}

impl Watched {
    /// The node's name.
    pub fn node(&self) -> &str {
        self.keys.node()
    }
}

/// What a witness knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WitnessReport {
    /// The witness: another one whenever it has lost its floors.
    pub instance: u64,
    /// Of each node that it probes all the time.
    pub heard: Vec<Heard>,
}

/// What a witness knows of a node. Ages are as of when the answer was made, rounded down to whole
/// milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// The node's name.
    pub node: String,
    /// The floor that is stored for it; 0: none.
    pub floor: u64,
    /// Since the newest genuine reply arrived; `None`: none has.
    pub heard_ago: Option<Duration>,
    /// Whether the node's agent was up, as of that reply.
    pub agent_up: bool,
    /// Whether the node held its lease, as of that reply.
    pub lease_held: bool,
    /// Since the newest reply arrived that was echoed in a vote under a lower floor than the stored
    /// one; `None`: there was none.
    pub voted_ago: Option<Duration>,
    /// The node's incarnation, as of the newest reply; 0: not known.
    pub incarnation: u64,
}

/// Does this node hear that one?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Whom to listen to. Its floor is not stored, and nothing is voted.
    pub watched: Watched,
    /// How long to wait for a reply, at most 60 s.
    pub wait: Duration,
    /// A reply that arrived before the question counts if it is no older.
    pub max_age: Duration,
    /// UDP port of the node's reflector, not 0.
    pub port: u16,
}

/// The answer to a [`Question`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskReport {
    /// The witness that answers; `None`: an agent that cannot be one.
    pub instance: Option<u64>,
    /// The newest that it has heard of the node, however old.
    pub heard: Heard,
}

impl From<Duty> for proto::WitnessRequest {
    fn from(duty: Duty) -> Self {
        Self {
            version: duty.version,
            instance: duty.instance.unwrap_or(0),
            nodes: duty.watched.into_iter().map(Into::into).collect(),
            period_ms: millis(duty.period),
            lease_ms: millis(duty.lease),
            port: duty.port.into(),
        }
    }
}

impl TryFrom<proto::WitnessRequest> for Duty {
    type Error = Malformed;

    fn try_from(request: proto::WitnessRequest) -> Result<Self, Malformed> {
        let watched = convert::<_, Watched>(request.nodes)?;
        let mut seen = HashSet::new();
        if let Some(again) = watched.iter().find(|it| !seen.insert(it.node())) {
            let node = again.node().to_owned();
            return Err(Malformed::NodeTwice { node });
        }
        if !PERIODS_MS.contains(&request.period_ms) {
            return Err(Malformed::Range {
                field: "period_ms",
                value: request.period_ms,
                range: "10 to 60000",
            });
        }
        Ok(Self {
            version: request.version,
            instance: (request.instance != 0).then_some(request.instance),
            watched,
            period: from_millis(request.period_ms),
            lease: from_millis(request.lease_ms),
            port: port(request.port)?,
        })
    }
}

impl From<Watched> for proto::Watched {
    fn from(watched: Watched) -> Self {
        Self {
            node: watched.node().to_owned(),
            addresses: watched.addresses.iter().map(ToString::to_string).collect(),
            keys: watched.keys.all().iter().map(Into::into).collect(),
            floor: watched.floor,
            vote: watched.vote,
        }
    }
}

impl TryFrom<proto::Watched> for Watched {
    type Error = Malformed;

    fn try_from(received: proto::Watched) -> Result<Self, Malformed> {
        let node = received.node;
        let keys = NodeKeys::new(&node, convert(received.keys)?);
        let addresses = received.addresses.into_iter().map(parse_address);
        Ok(Self {
            addresses: addresses.collect::<Result<_, _>>()?,
            keys: keys.map_err(|source| Malformed::Keys { node, source })?,
            floor: received.floor,
            vote: received.vote,
        })
    }
}

impl From<WitnessReport> for proto::WitnessReport {
    fn from(report: WitnessReport) -> Self {
        Self {
            instance: report.instance,
            nodes: report.heard.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<proto::WitnessReport> for WitnessReport {
    fn from(received: proto::WitnessReport) -> Self {
        Self {
            instance: received.instance,
            heard: received.nodes.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<Heard> for proto::Heard {
    fn from(heard: Heard) -> Self {
        Self {
            node: heard.node,
            floor: heard.floor,
            heard_ms_ago: heard.heard_ago.map(millis),
            agent_up: heard.agent_up,
            lease_held: heard.lease_held,
            vote_ms_ago: heard.voted_ago.map(millis),
            incarnation: heard.incarnation,
        }
    }
}

impl From<proto::Heard> for Heard {
    fn from(received: proto::Heard) -> Self {
        Self {
            node: received.node,
            floor: received.floor,
            heard_ago: received.heard_ms_ago.map(from_millis),
            agent_up: received.agent_up,
            lease_held: received.lease_held,
            voted_ago: received.vote_ms_ago.map(from_millis),
            incarnation: received.incarnation,
        }
    }
}

impl From<Question> for proto::AskRequest {
    fn from(question: Question) -> Self {
        Self {
            node: Some(question.watched.into()),
            wait_ms: millis(question.wait),
            max_age_ms: millis(question.max_age),
            port: question.port.into(),
        }
    }
}

impl TryFrom<proto::AskRequest> for Question {
    type Error = Malformed;

    fn try_from(request: proto::AskRequest) -> Result<Self, Malformed> {
        let watched = request.node.ok_or(Malformed::Missing { field: "node" })?;
        Ok(Self {
            watched: watched.try_into()?,
            wait: from_millis(request.wait_ms).min(LONGEST_WAIT),
            max_age: from_millis(request.max_age_ms),
            port: port(request.port)?,
        })
    }
}

impl From<AskReport> for proto::AskReport {
    fn from(report: AskReport) -> Self {
        Self {
            instance: report.instance.unwrap_or(0),
            heard: Some(report.heard.into()),
        }
    }
}

impl TryFrom<proto::AskReport> for AskReport {
    type Error = Malformed;

    fn try_from(received: proto::AskReport) -> Result<Self, Malformed> {
        let heard = received
            .heard
            .ok_or(Malformed::Missing { field: "heard" })?;
        Ok(Self {
            instance: (received.instance != 0).then_some(received.instance),
            heard: heard.into(),
        })
    }
}

fn port(received: u32) -> Result<u16, Malformed> {
    let port = u16::try_from(received).ok().filter(|port| *port != 0);
    port.ok_or(Malformed::Range {
        field: "port",
        value: received,
        range: "1 to 65535",
    })
}

/// Rounded down, at most some 49 days.
fn millis(duration: Duration) -> u32 {
    duration.as_millis().try_into().unwrap_or(u32::MAX)
}

fn from_millis(millis: u32) -> Duration {
    Duration::from_millis(millis.into())
}

#[cfg(test)]
mod tests;
