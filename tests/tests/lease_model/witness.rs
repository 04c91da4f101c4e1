//! A witness: votes for the gateway nodes that answer it, and keeps promises.
//!
//! Its memory is durable before it answers, and survives its process; a reboot loses it. The last votes are
//! kept in the process only, which is the harder case: a restarted witness reports its start instead.

use crate::{
    kernel::{Request, Right},
    record::Epoch,
    rules::{Clause, Rules},
    time::Ns,
    world::{GATEWAYS, NODES},
};

/// The instance id of a witness: new whenever its memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Instance(u16);

impl Instance {
    /// The first instance on a node.
    pub(crate) const fn first(host: usize) -> Self {
        Self(host as u16)
    }

    /// As probes carry it: 0 is none.
    pub(crate) fn id(self) -> u64 {
        u64::from(self.0) + 1
    }

    /// The node that it runs on. Nothing in the rules may depend on it.
    pub(crate) const fn host(self) -> usize {
        self.0 as usize % NODES
    }

    /// The same instance, were it on another node.
    pub(crate) const fn on(self, host: usize) -> Self {
        Self(self.0 - self.host() as u16 + host as u16)
    }

    const fn next(self) -> Self {
        Self(self.0 + NODES as u16)
    }
}

/// What a prober remembers of a node's last reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Heard {
    pub(crate) incarnation: u16,
    /// Node time when it answered.
    pub(crate) time: Ns,
    /// The prober's own time when the answer arrived.
    pub(crate) at: Ns,
}

/// A witness's promise: it will not vote for this gateway below this floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Promise {
    pub(crate) instance: Instance,
    pub(crate) floor: Epoch,
    /// How long ago it received the reply on which its last vote was based: none if it never voted.
    pub(crate) age: Option<Ns>,
    /// The same as a time of its own clock: what [`Clause::AgesNotTimes`] forbids to use.
    pub(crate) time: Ns,
}

/// A witness process with its memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Witness {
    pub(crate) instance: Instance,
    floors: [Epoch; GATEWAYS],
    last_votes: [Option<Ns>; GATEWAYS],
    heard: [Option<Heard>; GATEWAYS],
}

impl Witness {
    /// A witness with an empty memory.
    pub(crate) const fn new(instance: Instance) -> Self {
        Self {
            instance,
            floors: [Epoch::NONE; GATEWAYS],
            last_votes: [None; GATEWAYS],
            heard: [None; GATEWAYS],
        }
    }

    /// A reply of a gateway arrived.
    pub(crate) const fn handle_reply(&mut self, gateway: usize, heard: Heard) {
        self.heard[gateway] = Some(heard);
    }

    /// The vote of the next probe to a gateway; none as long as that has not answered.
    pub(crate) fn vote(&mut self, gateway: usize) -> Option<Request> {
        let heard = self.heard[gateway]?;
        self.last_votes[gateway] = self.last_votes[gateway].max(Some(heard.at));
        Some(Request {
            right: Right::Witness(self.instance),
            incarnation: heard.incarnation,
            echo: heard.time,
            floor: self.floors[gateway],
        })
    }

    /// The controller asks for a promise. `None` if it asks another instance.
    pub(crate) fn handle_ask(
        &mut self,
        rules: Rules,
        now: Ns,
        asked: Instance,
        gateway: usize,
        floor: Epoch,
    ) -> Option<Promise> {
        if asked != self.instance && rules.has(Clause::PromiseNamesInstance) {
            return None;
        }
        let stored = &mut self.floors[gateway];
        *stored = if rules.has(Clause::FloorsNeverDecrease) {
            floor.max(*stored)
        } else {
            floor
        };
        let last = self.last_votes[gateway];
        Some(Promise {
            instance: asked,
            floor: *stored,
            age: last.map(|at| now - at),
            time: last.unwrap_or(0),
        })
    }

    /// The process starts again; what was durable is still there.
    pub(crate) fn restart(&mut self, rules: Rules, now: Ns) {
        self.heard = [None; GATEWAYS];
        self.last_votes = [rules.has(Clause::RestartReportsStart).then_some(now); GATEWAYS];
        if !rules.has(Clause::FloorsDurable) {
            self.floors = [Epoch::NONE; GATEWAYS];
        }
    }

    /// The memory is gone, and the process starts again.
    pub(crate) fn lose_memory(&mut self, rules: Rules) {
        let fresh = rules.has(Clause::LossMakesNewInstance);
        *self = Self::new(if fresh {
            self.instance.next()
        } else {
            self.instance
        });
    }
}
