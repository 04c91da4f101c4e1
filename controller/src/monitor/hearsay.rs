//! What others are asked about nodes that nobody is known to hear, and what they say.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use probe_user::channel::{Heard, Question, Watched};
use probe_user::keys::NodeKeys;

use super::core::Monitor;
use super::panel::Member;
use super::{NodeSpec, Reading};
use crate::health::{Evidence, NodeIndex, State};

/// The label that says where a node is.
const ZONE: &str = "topology.kubernetes.io/zone";

/// A question to one node about another: does it hear that?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Who is asked.
    pub witness: String,
    /// Where its agent is.
    pub at: Vec<IpAddr>,
    /// About whom.
    pub node: String,
    /// Where that is probed.
    pub addresses: Vec<IpAddr>,
    /// With which keys.
    pub keys: NodeKeys,
    /// Only what was heard within this time is news.
    pub max_age: Duration,
    /// An answer that comes later is of no use.
    pub wait: Duration,
}

/// The answer of somebody who noticed something of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Testimony {
    /// Who says so.
    pub witness: String,
    /// Of whom.
    pub node: String,
    /// When that was, or any time before that.
    pub at: Instant,
    /// What was noticed.
    pub sign: Sign,
}

/// A sign of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// A probe was answered.
    Reply {
        /// Whether the node's kernel said then that its lease was held.
        lease_held: bool,
    },
    /// A packet came from one of its tunnels.
    TunnelPacket,
}

impl Ask {
    /// What to ask the witness's agent. Reflectors listen on `port`.
    pub fn question(&self, port: u16) -> Question {
        Question {
            watched: Watched {
                keys: self.keys.clone(),
                addresses: self.addresses.clone(),
                floor: 0,
                vote: false,
            },
            wait: self.wait,
            max_age: self.max_age,
            port,
        }
    }

    /// What the answer says about the node, if the question was put at `asked`; `None`: not that it
    /// was heard, or nothing new.
    pub fn testimony(&self, asked: Instant, heard: &Heard) -> Option<Testimony> {
        let ago = heard.heard_ago.filter(|ago| *ago <= self.max_age)?;
        Some(Testimony {
            witness: self.witness.clone(),
            node: self.node.clone(),
            // The answer was made later than the question, so the reply came no earlier than this.
            at: asked.checked_sub(ago)?,
            sign: Sign::Reply {
                lease_held: heard.lease_held,
            },
        })
    }

    /// What it says about the node that the witness, asked at `asked`, last received a packet from its
    /// tunnels so long before it answered; `None`: nothing new.
    pub fn tunnel_testimony(&self, asked: Instant, ago: Option<Duration>) -> Option<Testimony> {
        let ago = ago.filter(|ago| *ago <= self.max_age)?;
        Some(Testimony {
            witness: self.witness.clone(),
            node: self.node.clone(),
            at: asked.checked_sub(ago)?,
            sign: Sign::TunnelPacket,
        })
    }
}

impl Monitor {
    /// The next question to ask.
    pub fn poll_ask(&mut self) -> Option<Ask> {
        self.asks.pop_front()
    }

    /// Somebody who was asked noticed something of a node.
    pub fn handle_testimony(&mut self, now: Reading, testimony: &Testimony) {
        let Some(&index) = self.names.get(&testimony.node) else {
            return;
        };
        let lease = self.leases.time(&testimony.node);
        let (evidence, in_its_favour) = match testimony.sign {
            Sign::Reply { lease_held } => {
                let lease_over = lease.is_some() && !lease_held;
                (Evidence::Answered { lease_over }, !lease_over)
            }
            Sign::TunnelPacket => (Evidence::TunnelPacket { lease }, true),
        };
        self.health.handle_evidence(index, testimony.at, evidence);
        if !in_its_favour || self.health.state(index) == State::Unreachable {
            return;
        }
        let by = self.names.get(&testimony.witness).copied();
        match testimony.sign {
            Sign::Reply { .. } => self.note_heard(index, testimony.at, by),
            Sign::TunnelPacket => self.note_tunnel_packet(index, testimony, by),
        }
        self.publish(now, index);
    }

    fn note_heard(&mut self, index: NodeIndex, at: Instant, by: Option<NodeIndex>) {
        if let Some(by) = by {
            self.panel.note_heard(index, by);
        }
        let witnesses = self.witnesses_of(index);
        if let Some(slot) = self.slot(index) {
            slot.cell.lock().note_witnesses(at, witnesses);
        }
    }

    fn note_tunnel_packet(
        &mut self,
        index: NodeIndex,
        testimony: &Testimony,
        by: Option<NodeIndex>,
    ) {
        if let Some(by) = by {
            self.panel.note_reached(index, by);
        }
        if let Some(slot) = self.slot(index) {
            let by = testimony.witness.clone();
            slot.cell.lock().note_tunnel_packet(testimony.at, by);
        }
    }

    /// Asks others about a node that nobody has heard for so long, as of `due`.
    pub(super) fn ask_about(&mut self, index: NodeIndex, due: Instant, unheard: Duration) {
        if !self.settings.ask {
            return;
        }
        // Who has just missed a reply may be on the wrong side of the same failure.
        let lately = self.settings.probe.period * 3 / 2;
        let fit = |other: NodeIndex| {
            let known = self.health.node(other);
            known.is_some_and(|it| it.state() == State::Available && it.silence(due) < lately)
        };
        let chosen = self.panel.ask(due, index, fit);
        let (max_age, wait) = self.times(unheard);
        let ask = |witness: NodeIndex| {
            let (witness, slot) = (&self.slot(witness)?.spec, self.slot(index)?);
            let node = &slot.spec;
            Some(Ask {
                witness: witness.name.clone(),
                at: witness.addresses.clone(),
                node: node.name.clone(),
                addresses: node.addresses.clone(),
                keys: node.keys.signing_as_held(&slot.held),
                max_age,
                wait,
            })
        };
        let asks: Vec<Ask> = chosen.into_iter().filter_map(ask).collect();
        self.asks.extend(asks);
    }

    /// What is news of a node that nobody has heard for `unheard`, and how long there is to say it.
    fn times(&self, unheard: Duration) -> (Duration, Duration) {
        let (period, timeout) = (self.settings.probe.period, self.settings.health.timeout);
        // What was heard in the first period may have been before whatever has happened. What is heard
        // because of the question is news at any rate.
        let max_age = unheard.saturating_sub(period).max(period / 4);
        // The node is given up at the first round after the timeout.
        let left = timeout.saturating_sub(unheard).as_nanos();
        let rounds = left / period.as_nanos().max(1) + 1;
        let rounds = u32::try_from(rounds).unwrap_or(u32::MAX);
        (
            max_age,
            period.saturating_mul(rounds).saturating_sub(period / 4),
        )
    }

    /// The names of those who hear a node that the controller does not hear.
    pub(super) fn witnesses_of(&self, index: NodeIndex) -> Vec<String> {
        let name = |by: &NodeIndex| Some(self.slot(*by)?.spec.name.clone());
        self.panel.heard_by(index).iter().filter_map(name).collect()
    }

    /// Everyone who is configured may be asked.
    pub(super) fn seat_panel(&mut self) {
        let slots = &self.slots;
        let members = self.names.values().filter_map(|&index| {
            let NodeSpec { name, labels, .. } = &slots.get(index.0 as usize)?.as_ref()?.spec;
            let zone = labels.get(ZONE).map(String::as_str);
            Some(Member { index, name, zone })
        });
        self.panel.set_members(members);
    }
}

#[cfg(test)]
mod tests {
    use probe_user::keys::ClusterKeys;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn ask() -> Ask {
        Ask {
            witness: "n2".to_owned(),
            at: vec![[10, 0, 0, 2].into()],
            node: "n1".to_owned(),
            addresses: vec![[10, 0, 0, 1].into()],
            keys: ClusterKeys::generate(1).unwrap().node_keys("n1"),
            max_age: 3 * SECOND,
            wait: SECOND,
        }
    }

    fn heard(ago: Option<Duration>) -> Heard {
        Heard {
            heard_ago: ago,
            lease_held: true,
            ..Heard::default()
        }
    }

    #[test]
    fn who_never_heard_the_node_or_not_for_too_long_testifies_nothing() {
        let asked = Instant::now();
        assert_eq!(ask().testimony(asked, &heard(None)), None);
        assert_eq!(ask().testimony(asked, &heard(Some(4 * SECOND))), None);
    }

    #[test]
    fn what_was_heard_is_not_taken_for_newer_than_it_is() {
        let asked = Instant::now();
        let testimony = ask().testimony(asked, &heard(Some(2 * SECOND))).unwrap();
        assert_eq!(testimony.at, asked - 2 * SECOND);
        assert_eq!(testimony.sign, Sign::Reply { lease_held: true });
        assert_eq!((&*testimony.witness, &*testimony.node), ("n2", "n1"));
    }
}
