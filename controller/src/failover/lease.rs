//! The controller's half of the lease: which nodes' leases it extends, down to which assignment
//! epoch, and from when on a node that confirms nothing is sure to be fenced.
//!
//! A node's kernel passes its egress IPs only while its lease lasts. The lease is extended by probes
//! that name the node's *floor*: the oldest applied epoch that still counts. To take an address from
//! a node that does not answer, the controller raises the floor to the epoch without the address, and
//! waits until whatever was extended under a lower floor is over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What is added to a lease for all that is not clocks' rates: rounding, and receive times.
const MARGIN: Duration = Duration::from_millis(50);

/// How it is made sure that a node has lost an address before another one gets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fencing {
    /// By its agent's word; who cannot be asked is taken to be gone.
    #[default]
    None,
    /// By its agent's word, or else by the end of its lease, which the controller alone extends.
    Strict {
        /// How long a lease lasts from the reply that it is extended by.
        lease: Duration,
    },
}

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
    fencing: Fencing,
    /// The longest lease that may be running anywhere.
    longest: Duration,
    /// When this controller's term was recorded.
    term: Option<Instant>,
    nodes: BTreeMap<Arc<str>, Lease>,
    /// What the prober was told last.
    told: Option<Renewals>,
    /// How often it was told, and how often it said that it does so.
    asked: u64,
    answered: u64,
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
}

/// Whether a node that confirms nothing can still use what was taken from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Safety {
    /// Not from then on; nobody has to be asked.
    At(Instant),
    /// Not known yet: its floor is not raised, or no term has begun.
    Unknown,
}

impl Leases {
    /// No node's lease is extended yet. `longest` is what earlier controllers may have given out.
    pub(super) fn new(fencing: Fencing, longest: Duration) -> Self {
        Self {
            fencing,
            longest: longest.max(fencing.lease().unwrap_or_default()),
            ..Self::default()
        }
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

    /// Leases that an earlier controller gave out end.
    pub(super) fn pass(&mut self, now: Instant) {
        let own = self.fencing.lease().unwrap_or_default();
        if self
            .term
            .is_some_and(|term| term + over(self.longest) <= now)
        {
            self.longest = own;
        }
    }

    /// The record that claims the term is durable: from now on leases may be extended.
    pub(super) fn begin_term(&mut self, now: Instant) {
        self.term.get_or_insert(now);
    }

    /// What an earlier controller recorded.
    pub(super) fn restore(&mut self, node: Arc<str>, floor: u64) {
        self.nodes.entry(node).or_default().floor = floor;
    }

    /// The floor of a node, 0 if it has none yet.
    pub(super) fn floor(&self, node: &str) -> u64 {
        self.nodes.get(node).map_or(0, |lease| lease.floor)
    }

    /// Something is taken from a node: only as of `epoch` is its lease extended any more.
    pub(super) fn raise(&mut self, node: &Arc<str>, epoch: u64) {
        let lease = self.nodes.entry(node.clone()).or_default();
        if lease.floor < epoch {
            lease.floor = epoch;
            lease.raised = self.asked + 1;
        }
    }

    /// The node's agent has confirmed an epoch. Nothing is extended under one below the floor, so
    /// that what it does with witnesses or limits then makes no difference.
    pub(super) fn confirm(&mut self, node: &Arc<str>, epoch: u64, now: Instant) {
        let lease = self.nodes.entry(node.clone()).or_default();
        if lease.floor <= epoch {
            lease.confirmed = Some(now);
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
        let last = [Some(term), lease.basis, lease.confirmed];
        let last = last.into_iter().flatten().max().unwrap_or(term);
        Safety::At(last + over(self.longest))
    }

    /// Forgets nodes that nobody knows any more.
    pub(super) fn retain(&mut self, known: impl Fn(&str) -> bool) {
        self.nodes.retain(|node, _| known(node));
    }
}

/// How long a lease may last by another clock: rates may differ by 1 %.
fn over(lease: Duration) -> Duration {
    lease + lease / 100 + MARGIN
}

impl Fencing {
    /// The word that is configured and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Strict { .. } => "strict",
        }
    }

    /// How long a lease lasts; `None`: there is none.
    pub const fn lease(self) -> Option<Duration> {
        match self {
            Self::None => None,
            Self::Strict { lease } => Some(lease),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(2);
    /// 1.01 of it, and the margin.
    const OVER: Duration = Duration::from_millis(2_070);

    struct World {
        leases: Leases,
        node: Arc<str>,
        start: Instant,
    }

    impl World {
        /// `n1`'s lease is being extended.
        fn new() -> Self {
            let start = Instant::now();
            let mut leases = Leases::new(Fencing::Strict { lease: LEASE }, Duration::ZERO);
            leases.begin_term(start);
            let mut world = Self {
                leases,
                node: Arc::from("n1"),
                start,
            };
            world.tell(None);
            world
        }

        fn at(&self, seconds: u64) -> Instant {
            self.start + Duration::from_secs(seconds)
        }

        /// The prober is told, and answers that it had extended the lease by a reply of then.
        fn tell(&mut self, echoed: Option<u64>) {
            let node = self.node.clone();
            self.leases.renewals([&node].into_iter()).unwrap();
            let echoed = echoed.map(|at| (node.to_string(), self.at(at)));
            self.leases.handle_renewed(&echoed.into_iter().collect());
        }
    }

    #[test]
    fn nothing_is_renewed_before_the_term_is_claimed_or_without_a_fence() {
        let node: Arc<str> = Arc::from("n1");
        let mut leases = Leases::new(Fencing::Strict { lease: LEASE }, Duration::ZERO);
        assert_eq!(leases.renewals([&node].into_iter()), None);
        let mut leases = Leases::new(Fencing::None, Duration::ZERO);
        leases.begin_term(Instant::now());
        assert_eq!(leases.renewals([&node].into_iter()), None);
    }

    #[test]
    fn renewals_are_told_when_they_change() {
        let mut world = World::new();
        let node = world.node.clone();
        assert_eq!(world.leases.renewals([&node].into_iter()), None);
        world.leases.raise(&node, 7);
        let renewals = world.leases.renewals([&node].into_iter()).unwrap();
        assert_eq!(renewals.floors[&node], 7);
        assert_eq!(world.leases.renewals([&node].into_iter()), None);
    }

    #[test]
    fn a_node_is_safe_when_what_was_extended_under_a_lower_floor_is_over() {
        let mut world = World::new();
        world.leases.raise(&world.node.clone(), 7);
        world.tell(Some(10));
        let safe = Safety::At(world.at(10) + OVER);
        assert_eq!(world.leases.safety("n1", 7), safe);
    }

    #[test]
    fn a_floor_that_the_prober_may_not_name_yet_makes_nothing_safe() {
        let mut world = World::new();
        let node = world.node.clone();
        assert_eq!(world.leases.safety("n1", 7), Safety::Unknown);
        world.leases.raise(&node, 7);
        assert_eq!(world.leases.safety("n1", 7), Safety::Unknown);
        world.leases.renewals([&node].into_iter()).unwrap();
        assert_eq!(world.leases.safety("n1", 7), Safety::Unknown);
        world.leases.handle_renewed(&BTreeMap::new());
        assert_ne!(world.leases.safety("n1", 7), Safety::Unknown);
    }

    #[test]
    fn what_an_earlier_controller_extended_counts_from_the_term_on() {
        let mut leases = Leases::new(Fencing::Strict { lease: LEASE }, 2 * LEASE);
        leases.restore(Arc::from("n1"), 5);
        leases.begin_term(Instant::now());
        let term = leases.term.unwrap();
        let end = term + over(2 * LEASE);
        assert_eq!(leases.safety("n1", 5), Safety::At(end));
        assert_eq!(leases.safety("n1", 6), Safety::Unknown);
        leases.pass(end - MARGIN);
        assert_eq!(leases.longest(), 2 * LEASE);
        leases.pass(end);
        assert_eq!(leases.longest(), LEASE);
    }

    #[test]
    fn what_an_agent_confirms_may_have_extended_the_lease() {
        let mut world = World::new();
        let node = world.node.clone();
        world.leases.raise(&node, 7);
        world.tell(Some(10));
        world.leases.confirm(&node, 6, world.at(11));
        world.leases.confirm(&node, 7, world.at(12));
        assert_eq!(
            world.leases.safety("n1", 7),
            Safety::At(world.at(12) + OVER)
        );
    }

    #[test]
    fn what_is_extended_under_the_raised_floor_does_not_put_safety_off() {
        let mut world = World::new();
        let node = world.node.clone();
        world.leases.raise(&node, 7);
        world.tell(Some(10));
        let other: Arc<str> = Arc::from("n2");
        world.leases.renewals([&node, &other].into_iter()).unwrap();
        let echoed = BTreeMap::from([(node.to_string(), world.at(20))]);
        world.leases.handle_renewed(&echoed);
        let safe = Safety::At(world.at(10) + OVER);
        assert_eq!(world.leases.safety("n1", 7), safe);
        world.leases.raise(&node, 8);
        world.tell(None);
        let safe = Safety::At(world.at(20) + OVER);
        assert_eq!(world.leases.safety("n1", 8), safe);
    }

    #[test]
    fn what_was_told_before_the_floor_was_raised_is_remembered() {
        let mut world = World::new();
        let node = world.node.clone();
        world
            .leases
            .renewals([&node, &Arc::from("n2")].into_iter())
            .unwrap();
        let echoed = BTreeMap::from([(node.to_string(), world.at(5))]);
        world.leases.handle_renewed(&echoed);
        world.leases.raise(&node, 7);
        world.tell(None);
        let safe = Safety::At(world.at(5) + OVER);
        assert_eq!(world.leases.safety("n1", 7), safe);
    }

    #[test]
    fn a_floor_never_sinks() {
        let mut world = World::new();
        let node = world.node.clone();
        world.leases.raise(&node, 7);
        world.leases.raise(&node, 6);
        assert_eq!(world.leases.floor("n1"), 7);
    }

    #[test]
    fn a_node_that_is_not_renewed_any_more_is_safe_once_its_last_lease_is_over() {
        let mut world = World::new();
        let node = world.node.clone();
        world.leases.raise(&node, 7);
        world.leases.renewals(std::iter::empty()).unwrap();
        let echoed = BTreeMap::from([(node.to_string(), world.at(3))]);
        world.leases.handle_renewed(&echoed);
        assert_eq!(world.leases.safety("n1", 7), Safety::At(world.at(3) + OVER));
    }
}
