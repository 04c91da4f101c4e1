//! The kernel of a gateway node: NODE_LEASE, WITNESSES, ASSIGNMENT and EGRESS_IPS, and the two programs
//! that use them, the reflector (RENEW, VOTE) and the fence. It needs no process.
//!
//! What RENEW and VOTE do is not modelled: it is the kernel programs' own code. A clause that is off is
//! got around by a request, or a set, that the code lets pass.

use std::cell::RefCell;

use probe_ebpf::lease::{Ask, Keeper, consider};
use probe_ebpf::maps::{self, NodeLease, Witness};
use probe_ebpf::wire::probe::{RENEW, VOTE};

use crate::{
    record::{Assignment, Epoch},
    rules::{Clause, Rules},
    time::{MS, Ns},
    witness::Instance,
    world::{ADDRESSES, SLOTS},
};

/// What the fence knows about an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Guard {
    /// Not in EGRESS_IPS though configured: the fence lets it pass. No rule ever leaves one so.
    Unguarded,
    /// Never passes.
    Shut,
    /// Passes under the lease.
    Own,
}

/// The part of a probe that asks for a longer lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Request {
    pub(crate) right: Right,
    /// Echoed from the node's last reply.
    pub(crate) incarnation: u16,
    /// Node time, echoed from the same reply.
    pub(crate) echo: Ns,
    /// Oldest applied epoch for which the request is meant.
    pub(crate) floor: Epoch,
}

/// By what right a request asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Right {
    /// RENEW, by the deciding controller.
    Controller,
    /// VOTE, by a witness.
    Witness(Instance),
}

/// The state of a node that only a reboot (or `detach`) loses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Kernel {
    pub(crate) incarnation: u16,
    pub(crate) guard: [Guard; ADDRESSES],
    /// Applied epoch, and the version of the applied set: what the agent writes last.
    pub(crate) applied: (Epoch, u16),
    /// WITNESSES: who may vote, and into which slot.
    pub(crate) witnesses: Vec<(Instance, u8)>,
    /// Version of the set that they are in, and how many witnesses it has.
    pub(crate) set: (u16, usize),
    /// L.
    pub(crate) lease_time: Ns,
    expires: Ns,
    votes: [Ns; SLOTS],
    /// Version of the set that these are votes of.
    voted_in: u16,
}

impl Kernel {
    /// A node whose programs have just been loaded from nothing.
    pub(crate) const fn new(incarnation: u16, guard: [Guard; ADDRESSES], lease_time: Ns) -> Self {
        Self {
            incarnation,
            guard,
            applied: (Epoch::NONE, 0),
            witnesses: Vec::new(),
            set: (0, 0),
            lease_time,
            expires: 0,
            votes: [0; SLOTS],
            voted_in: 0,
        }
    }

    /// RENEW and VOTE: the reflector's part of rules 1 and 2.
    pub(crate) fn honour(&mut self, rules: Rules, now: Ns, request: &Request) {
        let (ask, checks, from_echo) = match request.right {
            Right::Controller => (
                Ask {
                    flags: RENEW.into(),
                    witness: 0,
                    ..ask(request)
                },
                [
                    Clause::RenewChecksIncarnation,
                    Clause::RenewChecksFuture,
                    Clause::RenewChecksFloor,
                ],
                Clause::RenewCountsFromEcho,
            ),
            Right::Witness(instance) => (
                Ask {
                    flags: VOTE.into(),
                    witness: instance.id(),
                    ..ask(request)
                },
                [
                    Clause::VoteChecksIncarnation,
                    Clause::VoteChecksFuture,
                    Clause::VoteChecksFloor,
                ],
                Clause::VoteCountsFromEcho,
            ),
        };
        let [incarnation, future, floor] = checks.map(|check| rules.has(check));
        let assignment = self.assignment();
        let ask = Ask {
            incarnation: if incarnation {
                ask.incarnation
            } else {
                assignment.incarnation
            },
            floor: if floor { ask.floor } else { 0 },
            echoed_ns: if rules.has(from_echo) || ask.echoed_ns > now {
                ask.echoed_ns
            } else {
                now
            },
            ..ask
        };
        let now = if future { now } else { now.max(ask.echoed_ns) };
        let scratch = Scratch {
            lease: RefCell::new(self.lease()),
            witness: self.witness(rules, request.right),
        };
        // Whether it was honoured is for the counters.
        let _ = consider(&ask, &assignment, now, &scratch);
        self.take(&scratch.lease.into_inner());
    }

    /// `ASSIGNMENT`, as far as requests are judged by it.
    fn assignment(&self) -> maps::Assignment {
        maps::Assignment {
            incarnation: number(self.incarnation),
            applied_epoch: self.applied.0.number(),
            lease_limit_ms: (self.lease_time / MS) as u32,
            ..maps::Assignment::default()
        }
    }

    /// `NODE_LEASE`.
    fn lease(&self) -> NodeLease {
        let mut lease = NodeLease {
            expires_ns: self.expires,
            set_version: self.voted_in.into(),
            ..NodeLease::default()
        };
        lease.echoed_ns[..SLOTS].copy_from_slice(&self.votes);
        lease
    }

    fn take(&mut self, lease: &NodeLease) {
        self.expires = lease.expires_ns;
        self.voted_in = lease.set_version as u16;
        self.votes.copy_from_slice(&lease.echoed_ns[..SLOTS]);
    }

    /// What `WITNESSES` holds of whoever votes, if it is in the applied set.
    fn witness(&self, rules: Rules, right: Right) -> Option<Witness> {
        let Right::Witness(instance) = right else {
            return None;
        };
        let same = |member: &Instance| {
            *member == instance
                || !rules.has(Clause::VoteChecksInstance) && member.host() == instance.host()
        };
        let (version, size) = self.set;
        let (_, slot) = self.witnesses.iter().find(|(member, _)| same(member))?;
        let voted = |index: usize| self.votes[index] > 0 && self.voted_in == version;
        let voters = (0..SLOTS).filter(|index| *index == usize::from(*slot) || voted(*index));
        let of = match rules.has(Clause::MajorityOfWholeSet) {
            true => size,
            false => voters.count(),
        };
        Some(Witness {
            set_version: version.into(),
            set_size: if rules.has(Clause::VoteNeedsMajority) {
                of as u32
            } else {
                1
            },
            slot: (*slot).into(),
        })
    }

    /// The newest echoed vote time per slot, taken out.
    pub(crate) fn take_votes(&mut self) -> [Ns; SLOTS] {
        std::mem::take(&mut self.votes)
    }

    /// Whether the node may use its egress IPs.
    pub(crate) const fn lease_held(&self, now: Ns) -> bool {
        now < self.expires
    }

    /// The fence: whether a packet from the address leaves the node.
    pub(crate) fn passes(&self, now: Ns, address: usize) -> bool {
        match self.guard[address] {
            Guard::Unguarded => true,
            Guard::Shut => false,
            Guard::Own => self.lease_held(now),
        }
    }

    /// Shuts whatever the assignment does not give to this node.
    pub(crate) fn shut_removed(&mut self, assignment: &Assignment) {
        for address in 0..ADDRESSES {
            if !assignment.owns(address) {
                self.guard[address] = Guard::Shut;
            }
        }
    }

    /// Opens what the assignment gives to this node.
    pub(crate) fn open_own(&mut self, assignment: &Assignment) {
        for address in 0..ADDRESSES {
            if assignment.owns(address) {
                self.guard[address] = Guard::Own;
            }
        }
    }
}

/// Where the kernel programs' code finds the lease, and whoever votes.
struct Scratch {
    lease: RefCell<NodeLease>,
    witness: Option<Witness>,
}

impl Keeper for Scratch {
    fn witness(&self, _: u64) -> Option<&Witness> {
        self.witness.as_ref()
    }

    fn change_lease<T>(&self, change: impl FnOnce(&mut NodeLease) -> T) -> Option<T> {
        Some(change(&mut self.lease.borrow_mut()))
    }
}

/// What a request says, without its right. It asks for more than any limit grants.
fn ask(request: &Request) -> Ask {
    Ask {
        flags: 0,
        lease_ms: u32::MAX,
        floor: request.floor.number(),
        incarnation: number(request.incarnation),
        echoed_ns: request.echo,
        witness: 0,
    }
}

/// Zero is no incarnation.
fn number(incarnation: u16) -> u64 {
    u64::from(incarnation) + 1
}
