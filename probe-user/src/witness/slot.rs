//! A node that is probed.

use std::time::Instant;

use probe_ebpf::wire::NodeId;
use probe_ebpf::wire::probe::{AGENT_UP, LEASE_HELD, Reply};

use crate::channel::{Heard, Watched};
use crate::session::{Target, TargetError};

/// What a node said last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Said {
    /// When its newest reply arrived.
    pub(super) at: Instant,
    agent_up: bool,
    lease_held: bool,
    incarnation: u64,
}

/// A node that is probed: all the time as the duty says, or since somebody asks.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) watched: Watched,
    pub(super) node: NodeId,
    /// It is part of the duty.
    pub(super) is_duty: bool,
    /// When the duty began to name it: no vote echoes what was heard before.
    pub(super) since: Instant,
    /// Why it is not probed.
    pub(super) not_probed: Option<TargetError>,
    pub(super) said: Option<Said>,
}

impl Slot {
    pub(super) fn new(now: Instant, watched: &Watched, is_duty: bool) -> Self {
        Self {
            watched: watched.clone(),
            node: NodeId::of(watched.node()),
            is_duty,
            since: now,
            not_probed: None,
            said: None,
        }
    }

    pub(super) fn target(&self) -> Target {
        Target {
            node: self.node,
            keys: self.watched.keys.clone(),
            addresses: self.watched.addresses.clone(),
        }
    }

    /// A genuine reply arrived; `newest`: what it says is the node's latest word.
    pub(super) fn hear(&mut self, at: Instant, reply: &Reply, newest: bool) {
        let answer = &reply.answer;
        let said = self.said.filter(|_| !newest).unwrap_or(Said {
            at,
            agent_up: answer.flags & AGENT_UP != 0,
            lease_held: answer.flags & LEASE_HELD != 0,
            incarnation: answer.incarnation,
        });
        let at = self.said.map_or(at, |before| before.at.max(at));
        self.said = Some(Said { at, ..said });
    }

    /// What is known of the node itself.
    pub(super) fn heard(&self, now: Instant) -> Heard {
        let said = self.said.as_ref();
        Heard {
            node: self.watched.node().to_owned(),
            heard_ago: said.map(|said| now.saturating_duration_since(said.at)),
            agent_up: said.is_some_and(|said| said.agent_up),
            lease_held: said.is_some_and(|said| said.lease_held),
            incarnation: said.map_or(0, |said| said.incarnation),
            ..Heard::default()
        }
    }
}
