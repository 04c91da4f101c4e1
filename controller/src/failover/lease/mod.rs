//! The controller's half of the lease: which nodes' leases it extends, down to which assignment
//! epoch, and from when on a node that confirms nothing is sure to be fenced.
//!
//! A node's kernel passes its egress IPs only while its lease lasts. The lease is extended by probes
//! that name the node's *floor*: the oldest applied epoch that still counts. To take an address from
//! a node that does not answer, the controller raises the floor to the epoch without the address, has
//! the witnesses promise to keep to that, and waits until whatever was extended under a lower floor is
//! over.

mod fencing;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use probe_user::kernel::WitnessSet;

pub use self::fencing::Fencing;
use super::witnesses::{Duty, Lacking, Roster, Witnesses};

/// What is added to a lease for all that is not clocks' rates: rounding, and receive times.
const MARGIN: Duration = Duration::from_millis(50);

/// Which leases are extended, as of when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewals {
    /// Node by node, the floor.
    pub floors: BTreeMap<Arc<str>, u64>,
    /// How long a lease lasts.
    pub lease: Duration,
    /// Replies that came earlier extend nothing: when the term began.
    pub since: Instant,
}

/// All leases.
#[derive(Debug, Default)]
pub(super) struct Leases {
    /// As configured.
    configured: Fencing,
    /// As it is with so many nodes.
    fencing: Fencing,
    pub(super) witnesses: Witnesses,
    /// The longest lease that may be running anywhere.
    longest: Duration,
    /// Whoever has confirmed this epoch grants none that is longer than the present one.
    shortened: u64,
    /// When this controller's term was recorded.
    term: Option<Instant>,
    nodes: BTreeMap<Arc<str>, Lease>,
    /// What the prober was told last.
    told: Option<Renewals>,
    /// How often it was told, and how often it said that it does so.
    asked: u64,
    answered: u64,
    /// After how many tellings of the prober the witnesses were told last.
    charged: u64,
}

#[derive(Debug, Default)]
struct Lease {
    floor: u64,
    /// As of which asking the floor is named.
    raised: u64,
    /// When the newest reply came that extended the lease under any floor.
    echoed: Option<Instant>,
    /// The same, under a lower floor than the present one.
    basis: Option<Instant>,
    /// When the agent last confirmed anything.
    confirmed: Option<Instant>,
    /// Since when no lease is granted that is longer than the present one.
    shortened: Option<Instant>,
}

/// Whether a node that confirms nothing can still use what was taken from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Safety {
    /// Not from then on; nobody has to be asked.
    At(Instant),
    /// Not known yet: its floor is not raised, or no term has begun.
    Unknown,
    /// Not known: too few witnesses have promised to vote for it no more.
    NoQuorum(Lacking),
}

impl Leases {
    /// No node's lease is extended yet.
    pub(super) fn new(fencing: Fencing) -> Self {
        Self {
            configured: fencing,
            fencing,
            longest: fencing.lease().unwrap_or_default(),
            ..Self::default()
        }
    }

    /// Goes on from what an earlier controller recorded: the longest lease that was given, and the
    /// witnesses.
    pub(super) fn restored(
        now: Instant,
        fencing: Fencing,
        longest: Duration,
        rosters: &[Roster],
    ) -> Self {
        let mut leases = Self::new(fencing);
        leases.longest = longest.max(leases.longest);
        leases.witnesses = Witnesses::restored(now, rosters);
        leases
    }

    /// There are so many nodes now; `epoch` is above any that was given until now. Whether leases
    /// last for another time from now on, so that all nodes have to be told.
    pub(super) fn fit(&mut self, nodes: usize, epoch: u64) -> bool {
        let before = self.fencing.lease();
        self.fencing = self.configured.among(nodes);
        if self.fencing.lease() == before {
            return false;
        }
        self.longest = self.longest.max(self.fencing.lease().unwrap_or_default());
        self.shortened = epoch;
        for lease in self.nodes.values_mut() {
            lease.shortened = None;
        }
        true
    }

    /// How nodes are fenced, as many as there are.
    pub(super) const fn fencing(&self) -> Fencing {
        self.fencing
    }

    /// Whether a node's addresses stop being used by themselves.
    pub(super) const fn is_fenced(&self) -> bool {
        self.fencing.lease().is_some()
    }

    /// How long a lease lasts, ms; 0: there is none.
    pub(super) fn lease_ms(&self) -> u32 {
        let lease = self.fencing.lease().unwrap_or_default();
        lease.as_millis().try_into().unwrap_or(u32::MAX)
    }

    /// The longest lease that may be running anywhere: what the next controller has to reckon with.
    pub(super) const fn longest(&self) -> Duration {
        self.longest
    }

    /// Longer leases that were given earlier end.
    pub(super) fn pass(&mut self, now: Instant) {
        let own = self.fencing.lease().unwrap_or_default();
        let ends = |lease: &Lease| Some(lease.shortened? + over(self.longest));
        let has_ended = |lease: &Lease| ends(lease).is_some_and(|at| at <= now);
        if self.longest > own && self.nodes.values().all(has_ended) {
            self.longest = own;
        }
    }

    /// The record that claims the term is durable: from now on leases may be extended.
    pub(super) fn begin_term(&mut self, now: Instant) {
        self.term.get_or_insert(now);
    }

    /// Whether the term has begun.
    pub(super) const fn has_term(&self) -> bool {
        self.term.is_some()
    }

    /// What an earlier controller recorded.
    pub(super) fn restore(&mut self, node: Arc<str>, floor: u64) {
        self.nodes.entry(node).or_default().floor = floor;
    }

    /// The floor of a node, 0 if it has none yet.
    pub(super) fn floor(&self, node: &str) -> u64 {
        self.nodes.get(node).map_or(0, |lease| lease.floor)
    }

    /// Something is taken from a node: only as of `epoch` is its lease extended any more. Whether that
    /// is new.
    pub(super) fn raise(&mut self, node: &Arc<str>, epoch: u64) -> bool {
        let lease = self.nodes.entry(node.clone()).or_default();
        let raised = lease.floor < epoch;
        if raised {
            lease.floor = epoch;
            lease.raised = self.asked + 1;
        }
        raised
    }

    /// Whether a node whose agent has confirmed nothing above `confirmed` is granted no lease since its
    /// floor was raised in this term.
    pub(super) fn bars(&self, node: &str, confirmed: u64) -> bool {
        let lease = self.nodes.get(node).filter(|_| self.is_fenced());
        lease.is_some_and(|lease| lease.raised > 0 && confirmed < lease.floor)
    }

    /// The node's agent has confirmed an epoch. Nothing is extended under one below the floor, so
    /// that what it does with witnesses or limits then makes no difference.
    pub(super) fn confirm(&mut self, node: &Arc<str>, epoch: u64, now: Instant) {
        let lease = self.nodes.entry(node.clone()).or_default();
        if lease.floor <= epoch {
            lease.confirmed = Some(now);
        }
        if self.shortened <= epoch {
            lease.shortened.get_or_insert(now);
        }
    }

    /// What the prober is to be told, if that has changed: the leases of `nodes` are extended, and of
    /// no others.
    pub(super) fn renewals<'a>(
        &mut self,
        nodes: impl Iterator<Item = &'a Arc<str>>,
    ) -> Option<Renewals> {
        let renewals = Renewals {
            floors: nodes.map(|node| (node.clone(), self.floor(node))).collect(),
            lease: self.fencing.lease()?,
            since: self.term?,
        };
        if self.told.as_ref() == Some(&renewals) {
            return None;
        }
        self.told = Some(renewals.clone());
        self.asked += 1;
        Some(renewals)
    }

    /// The prober does what it was told last but for `asked - answered` tellings; `echoed`: by node,
    /// when the newest reply came by which it had extended the lease until then.
    pub(super) fn handle_renewed(&mut self, echoed: &BTreeMap<String, Instant>) {
        self.answered += 1;
        for (node, &at) in echoed {
            let lease = self.nodes.entry(Arc::from(node.as_str())).or_default();
            lease.echoed = lease.echoed.max(Some(at));
        }
        // What is echoed under the present floor extends nothing for whoever has not applied that.
        for lease in self.nodes.values_mut() {
            if self.answered <= lease.raised {
                lease.basis = lease.echoed;
            }
        }
    }

    /// Whether a node that applied nothing as of `epoch` or later can still use its addresses.
    pub(super) fn safety(&self, node: &str, epoch: u64) -> Safety {
        let Some(term) = self.term else {
            return Safety::Unknown;
        };
        let lease = self.nodes.get(node);
        let in_force = |lease: &&Lease| lease.floor >= epoch && lease.raised <= self.answered;
        let Some(lease) = lease.filter(in_force) else {
            return Safety::Unknown;
        };
        let votes = match self.witnesses.basis(node, epoch) {
            Ok(votes) => votes,
            Err(lacking) => return Safety::NoQuorum(lacking),
        };
        let last = [Some(term), lease.basis, lease.confirmed, votes];
        let last = last.into_iter().flatten().max().unwrap_or(term);
        Safety::At(self.end_of(lease, last))
    }

    /// When a lease is over that was last extended by a reply of then.
    fn end_of(&self, lease: &Lease, last: Instant) -> Instant {
        let longest = last + over(self.longest);
        let Some(shortened) = lease.shortened else {
            return longest;
        };
        let own = last + over(self.fencing.lease().unwrap_or_default());
        longest.min(own.max(shortened + over(self.longest)))
    }

    /// Whether a node may be given an address: not before it has said whose votes extend its lease.
    pub(super) fn may_hold(&self, node: &str) -> bool {
        !self.is_fenced() || self.witnesses.may_hold(node)
    }

    /// Whose votes extend a node's lease, as it is told; `None`: nobody's.
    pub(super) fn witness_set(&self, node: &str) -> Option<WitnessSet> {
        let roster = self.witnesses.roster();
        let instances = roster.set(node).map(|member| member.instance);
        let is_fenced = self.is_fenced() && roster.version != 0;
        is_fenced.then(|| WitnessSet {
            version: roster.version,
            instances: instances.collect(),
        })
    }

    /// Which witnesses are to be told what now; everything that they are told is recorded.
    pub(super) fn duties(&mut self, now: Instant, term: u32) -> Vec<(Arc<str>, Option<Duty>)> {
        if self.charged == self.asked && !self.witnesses.are_stale() {
            return Vec::new();
        }
        self.charged = self.asked;
        let floors = self.told.iter().flat_map(|told| &told.floors);
        let leased: Vec<(Arc<str>, u64)> =
            floors.map(|(node, floor)| (node.clone(), *floor)).collect();
        let lease = self.fencing.lease().unwrap_or_default();
        self.witnesses.duties(now, term, &leased, lease)
    }

    /// Forgets nodes that nobody knows any more.
    pub(super) fn retain(&mut self, known: impl Fn(&str) -> bool) {
        self.nodes.retain(|node, _| known(node));
        self.witnesses.retain(known);
    }
}

/// How long a lease may last by another clock: rates may differ by 1 %.
fn over(lease: Duration) -> Duration {
    lease + lease / 100 + MARGIN
}

#[cfg(test)]
mod tests;
