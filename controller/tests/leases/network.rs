//! Letters on their way: lost, late, twice, in any order, or held up by a partition.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use controller::failover::Duty;
use probe_ebpf::lease::Ask;
use probe_user::channel::{Report, WitnessReport};
use probe_user::egress::Desired;

use crate::random::Random;

/// The controller is 0, nodes count from 1.
pub(crate) type Place = usize;

#[derive(Clone)]
pub(crate) enum Letter {
    Probe {
        ask: Ask,
    },
    Reply {
        incarnation: u64,
        time: u64,
        agent_up: bool,
    },
    Push {
        incarnation: Option<u64>,
        desired: Desired,
    },
    Pushed(Report),
    Duty(Duty),
    Testified {
        version: u64,
        report: WitnessReport,
    },
    RefusedDuty,
}

pub(crate) struct Sent {
    pub(crate) from: Place,
    pub(crate) to: Place,
    pub(crate) letter: Letter,
    /// Which process of the controller it is from or for: others do not get it.
    pub(crate) process: u64,
}

pub(crate) struct Network {
    due: BinaryHeap<Reverse<(u64, u64)>>,
    letters: std::collections::BTreeMap<u64, Sent>,
    count: u64,
    /// From, to.
    blocked: BTreeSet<(Place, Place)>,
    /// How many of a hundred letters are lost, and how many are late or doubled.
    pub(crate) loss: u64,
    pub(crate) mess: u64,
}

impl Network {
    pub(crate) fn new() -> Self {
        Self {
            due: BinaryHeap::new(),
            letters: std::collections::BTreeMap::new(),
            count: 0,
            blocked: BTreeSet::new(),
            loss: 1,
            mess: 2,
        }
    }

    pub(crate) fn block(&mut self, from: Place, to: Place) {
        self.blocked.insert((from, to));
    }

    pub(crate) fn heal(&mut self) {
        self.blocked.clear();
    }

    pub(crate) fn send(&mut self, random: &mut Random, now: u64, sent: Sent) {
        if self.blocked.contains(&(sent.from, sent.to)) || random.percent(self.loss) {
            return;
        }
        let late = |random: &mut Random, mess| match random.percent(mess) {
            true => random.below(4_000),
            false => random.below(4),
        };
        if random.percent(self.mess) {
            let again = Sent {
                letter: sent.letter.clone(),
                ..sent
            };
            let delay = late(random, 50);
            self.post(now + delay, again);
        }
        let delay = late(random, self.mess);
        self.post(now + delay, sent);
    }

    fn post(&mut self, due: u64, sent: Sent) {
        self.count += 1;
        self.due.push(Reverse((due, self.count)));
        self.letters.insert(self.count, sent);
    }

    /// The next letter that arrives by `now`.
    pub(crate) fn deliver(&mut self, now: u64) -> Option<Sent> {
        let Reverse((due, number)) = *self.due.peek()?;
        if due > now {
            return None;
        }
        self.due.pop();
        self.letters.remove(&number)
    }
}
