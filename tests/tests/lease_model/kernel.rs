//! The kernel of a gateway node: NODE_LEASE, WITNESSES, ASSIGNMENT and EGRESS_IPS, and the two programs
//! that use them, the reflector (RENEW, VOTE) and the fence. It needs no process.

use crate::{
    record::{Assignment, Epoch},
    rules::{Clause, Rules},
    time::Ns,
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
    /// How many witnesses the applied set has.
    pub(crate) set_size: usize,
    /// L.
    pub(crate) lease_time: Ns,
    expires: Ns,
    votes: [Ns; SLOTS],
}

impl Kernel {
    /// A node whose programs have just been loaded from nothing.
    pub(crate) const fn new(incarnation: u16, guard: [Guard; ADDRESSES], lease_time: Ns) -> Self {
        Self {
            incarnation,
            guard,
            applied: (Epoch::NONE, 0),
            witnesses: Vec::new(),
            set_size: 0,
            lease_time,
            expires: 0,
            votes: [0; SLOTS],
        }
    }

    /// RENEW and VOTE: the reflector's part of rules 1 and 2.
    pub(crate) fn honour(&mut self, rules: Rules, now: Ns, request: &Request) {
        match request.right {
            Right::Controller => {
                let checks = [
                    Clause::RenewChecksIncarnation,
                    Clause::RenewChecksFuture,
                    Clause::RenewChecksFloor,
                ];
                if self.admits(rules, now, request, checks) {
                    let from = if rules.has(Clause::RenewCountsFromEcho) {
                        request.echo
                    } else {
                        now
                    };
                    self.extend(from);
                }
            }
            Right::Witness(instance) => {
                let checks = [
                    Clause::VoteChecksIncarnation,
                    Clause::VoteChecksFuture,
                    Clause::VoteChecksFloor,
                ];
                let Some(slot) = self.slot(rules, instance) else {
                    return;
                };
                if self.admits(rules, now, request, checks) {
                    let from = if rules.has(Clause::VoteCountsFromEcho) {
                        request.echo
                    } else {
                        now
                    };
                    self.votes[slot] = self.votes[slot].max(from);
                    if let Some(newest) = self.majority_vote(rules) {
                        self.extend(newest);
                    }
                }
            }
        }
    }

    /// The three checks that RENEW and VOTE share.
    fn admits(
        &self,
        rules: Rules,
        now: Ns,
        request: &Request,
        [incarnation, future, floor]: [Clause; 3],
    ) -> bool {
        (request.incarnation == self.incarnation || !rules.has(incarnation))
            && (request.echo <= now || !rules.has(future))
            && (self.applied.0 >= request.floor || !rules.has(floor))
    }

    /// The slot into which a witness votes, if it is in the applied set.
    fn slot(&self, rules: Rules, instance: Instance) -> Option<usize> {
        let same = |member: &Instance| {
            *member == instance
                || !rules.has(Clause::VoteChecksInstance) && member.host() == instance.host()
        };
        self.witnesses
            .iter()
            .find(|(member, _)| same(member))
            .map(|(_, slot)| usize::from(*slot))
    }

    /// The majority-th newest vote of the applied set.
    fn majority_vote(&self, rules: Rules) -> Option<Ns> {
        let mut votes = self.votes;
        votes.sort_unstable_by(|a, b| b.cmp(a));
        let of = if rules.has(Clause::MajorityOfWholeSet) {
            self.set_size
        } else {
            votes.iter().filter(|vote| **vote > 0).count()
        };
        let majority = if rules.has(Clause::VoteNeedsMajority) {
            of / 2 + 1
        } else {
            1
        };
        Some(votes[majority - 1]).filter(|vote| *vote > 0)
    }

    fn extend(&mut self, from: Ns) {
        self.expires = self.expires.max(from + self.lease_time);
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
