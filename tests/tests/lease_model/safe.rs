//! Rule 4: when an address that was taken from a node can no longer pass there, and what may be placed then.

use crate::{
    controller::{Controller, View},
    record::{NodeRecord, Record, Terms},
    rules::{Clause, Rules},
    time::Ns,
    world::ADDRESSES,
};

/// The margin of the design (50 ms) is 0 here: clocks are read exactly, and 1.01 L must do by itself.
const MARGIN: Ns = 0;

impl Controller {
    /// The time from which no lease of the gateway can be held below the raised floor. `None` without a
    /// majority of promises.
    pub(crate) fn safe_at(&self, rules: Rules, gateway: usize) -> Option<Ns> {
        let (node, view, term) = (
            &self.record.nodes[gateway],
            &self.views[gateway],
            self.term?,
        );
        let counted = |clause, time| if rules.has(clause) { time } else { 0 };
        let votes = newest_vote(rules, node, view)?;
        let last = [
            counted(Clause::SafeCountsRenews, view.basis_below),
            counted(Clause::SafeCountsConfirmation, view.confirmed_at),
            counted(Clause::SafeCountsTermStart, term.start),
            counted(Clause::SafeCountsVotes, votes),
        ];
        Some(last.into_iter().fold(0, Ns::max) + longest_wait(rules, node) + MARGIN)
    }

    /// Whether it is proven that the gateway does not use the address any more.
    fn freed(&self, rules: Rules, now: Ns, gateway: usize, address: usize) -> bool {
        let (node, view) = (&self.record.nodes[gateway], &self.views[gateway]);
        let confirmed = view.confirmed.is_some_and(|(epoch, _)| {
            epoch >= node.taken[address] || !rules.has(Clause::ConfirmationNamesEpoch)
        });
        confirmed
            || self.safe_at(rules, gateway).is_some_and(|safe| safe <= now)
            || view.rebooted && !rules.has(Clause::RebootFreesNothing)
    }

    /// The record with the address given to a gateway, if nobody else can use it.
    pub(crate) fn placing(
        &self,
        rules: Rules,
        now: Ns,
        address: usize,
        gateway: usize,
    ) -> Option<Record> {
        let number = self.term?.number;
        let mut record = self.record.clone();
        if record.nodes.iter().any(|node| node.assigns(address)) {
            return None;
        }
        for (other, node) in record.nodes.iter_mut().enumerate() {
            if node.may_hold(address) && other != gateway {
                if !self.freed(rules, now, other, address) {
                    return None;
                }
                node.free(address);
            }
        }
        let node = &mut record.nodes[gateway];
        if node.terms.len() > 2 && rules.has(Clause::PlacingWaitsForSet) {
            return None;
        }
        node.give(number, address);
        Some(record)
    }

    /// The record with what is known to be over taken out of it. `None` if there is nothing.
    pub(crate) fn settling(&self, rules: Rules, now: Ns, gateway: usize) -> Option<Record> {
        let mut record = self.record.clone();
        let (node, view) = (&mut record.nodes[gateway], &self.views[gateway]);
        for address in 0..ADDRESSES {
            if node.may_hold(address)
                && !node.assigns(address)
                && self.freed(rules, now, gateway, address)
            {
                node.free(address);
            }
        }
        if let Some((_, version)) = view.confirmed {
            let newest = node.newest().version;
            node.terms
                .retain(|terms| terms.version >= version.min(newest));
            let longest = node
                .terms
                .iter()
                .map(|terms| terms.lease_time)
                .fold(0, Ns::max);
            let outlived = now >= view.version_at + node.largest_lease + node.largest_lease / 100;
            if outlived || !rules.has(Clause::LongLeaseOutlivesChange) {
                node.largest_lease = longest;
            }
        }
        (record != self.record).then_some(record)
    }
}

/// 1.01 L.
fn longest_wait(rules: Rules, node: &NodeRecord) -> Ns {
    let largest = rules.has(Clause::SafeUsesLargestLease);
    let lease = if largest {
        node.largest_lease
    } else {
        node.newest().lease_time
    };
    let rates = if rules.has(Clause::SafeAllowsForRates) {
        lease / 100
    } else {
        0
    };
    if rules.has(Clause::SafeWaitsForLease) {
        lease + rates
    } else {
        0
    }
}

/// Rule 3, and the votes of rule 4: the newest vote basis within some promising majority of every set that
/// the node may have applied. `None` if a set has no such majority.
fn newest_vote(rules: Rules, node: &NodeRecord, view: &View) -> Option<Ns> {
    let every = rules.has(Clause::PromiseOfEverySet);
    let sets = if every {
        &node.terms[..]
    } else {
        &node.terms[node.terms.len() - 1..]
    };
    sets.iter()
        .map(|terms| majority_basis(rules, terms, view))
        .try_fold(0, |newest, basis| Some(basis?.max(newest)))
}

fn majority_basis(rules: Rules, terms: &Terms, view: &View) -> Option<Ns> {
    let size = terms.members().count();
    let majority = if rules.has(Clause::PromiseNeedsMajority) {
        size / 2 + 1
    } else {
        1
    };
    if size == 0 {
        return Some(0);
    }
    let promised = |(promise, _): &(_, _)| -> bool {
        let promise: &crate::witness::Promise = promise;
        promise.floor >= view.floor || !rules.has(Clause::PromiseNamesFloor)
    };
    let mut bases: Vec<Ns> = terms
        .members()
        .filter_map(|member| {
            view.promises[member.host()]
                .filter(promised)
                .filter(|(by, _)| by.instance == member)
        })
        .map(|(_, basis)| basis)
        .collect();
    bases.sort_unstable();
    bases.get(majority - 1).copied()
}
