use probe_user::channel::{Heard, WitnessReport};

use super::*;
use crate::failover::witnesses::{Member, WitnessSettings};

const WITNESSES: WitnessSettings = WitnessSettings {
    count: 5,
    patience: Duration::from_secs(60),
};
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
        let mut leases = Leases::new(Fencing::Strict { lease: LEASE });
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
    let mut leases = Leases::new(Fencing::Strict { lease: LEASE });
    assert_eq!(leases.renewals([&node].into_iter()), None);
    let mut leases = Leases::new(Fencing::None);
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
    let fencing = Fencing::Strict { lease: LEASE };
    let start = Instant::now();
    let mut leases = Leases::restored(start, fencing, 2 * LEASE, &[]);
    leases.restore(Arc::from("n1"), 5);
    leases.begin_term(start);
    assert_eq!(leases.safety("n1", 5), Safety::At(start + over(2 * LEASE)));
    assert_eq!(leases.safety("n1", 6), Safety::Unknown);
}

#[test]
fn a_longer_lease_outlives_the_confirmation_of_the_shorter_one() {
    let fencing = Fencing::Strict { lease: LEASE };
    let start = Instant::now();
    let mut leases = Leases::restored(start, fencing, 5 * LEASE, &[]);
    let node: Arc<str> = Arc::from("n1");
    leases.restore(node.clone(), 5);
    leases.begin_term(start);
    let confirmed = start + LEASE;
    leases.confirm(&node, 5, confirmed);
    let end = confirmed + over(5 * LEASE);
    assert_eq!(leases.safety("n1", 5), Safety::At(end));
    leases.pass(end - MARGIN);
    assert_eq!(leases.longest(), 5 * LEASE);
    leases.pass(end);
    assert_eq!(leases.longest(), LEASE);
    leases.confirm(&node, 6, end);
    assert_eq!(leases.safety("n1", 5), Safety::At(end + OVER));
}

#[test]
fn few_nodes_have_leases_as_if_it_were_strict() {
    let fencing = Fencing::Quorum {
        lease: LEASE,
        alone: 5 * LEASE,
        witnesses: WITNESSES,
    };
    let mut leases = Leases::new(fencing);
    assert!(leases.fit(2, 1));
    assert_eq!(leases.fencing(), Fencing::Strict { lease: 5 * LEASE });
    assert!(leases.fit(3, 2));
    assert_eq!(leases.fencing(), fencing);
    assert_eq!(leases.longest(), 5 * LEASE);
    assert!(!leases.fit(4, 3));
}

#[test]
fn a_node_is_safe_only_when_witnesses_have_promised_too_and_their_votes_are_over() {
    let fencing = Fencing::Quorum {
        lease: LEASE,
        alone: LEASE,
        witnesses: WITNESSES,
    };
    let start = Instant::now();
    let member = |(node, instance): (&str, u64)| Member {
        node: node.to_owned(),
        instance,
    };
    let roster = Roster {
        version: 1,
        members: [("a", 1), ("b", 2)].map(member).to_vec(),
    };
    let mut leases = Leases::restored(start, fencing, LEASE, &[roster]);
    let node: Arc<str> = Arc::from("n1");
    leases.begin_term(start);
    leases.raise(&node, 7);
    leases.renewals([&node].into_iter()).unwrap();
    leases.handle_renewed(&BTreeMap::new());
    let lacking = Lacking { promised: 0, of: 1 };
    assert_eq!(leases.safety("n1", 7), Safety::NoQuorum(lacking));
    leases.duties(start, 1);
    let heard = Heard {
        node: "n1".to_owned(),
        floor: 7,
        voted_ago: Some(LEASE),
        ..Heard::default()
    };
    let report = WitnessReport {
        instance: 1,
        heard: vec![heard],
    };
    let at = start + 3 * LEASE;
    leases
        .witnesses
        .handle_report(at, "a", 1 << 32 | 1, &report);
    assert_eq!(leases.safety("n1", 7), Safety::At(at - LEASE + OVER));
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
