mod fence;
mod held_back;
mod votes;

use std::time::Duration;

use super::super::types::{Claim, Gateway};
use super::*;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 9];

/// A node on a simulated clock: what the applier asks for is done at once.
struct World {
    now: Instant,
    applier: Applier,
    /// Of which the node is a candidate.
    gateways: Vec<Gateway>,
    /// The longest lease that it may have; 0: it is not fenced.
    lease_ms: u32,
    observed: Observed,
    log: Vec<Step>,
}

fn address(last: u8) -> IpAddr {
    IpAddr::from([10, 78, 0, last])
}

fn egress_ip(last: u8, claim: Claim) -> EgressIp {
    EgressIp {
        gateway: "g".to_owned(),
        address: address(last),
        claim,
        sources: vec!["10.99.0.0/16".parse().unwrap()],
        interface: None,
        routed: false,
    }
}

impl World {
    fn new() -> Self {
        let link = Link {
            index: 2,
            name: "eth0".to_owned(),
            loopback: false,
            up: true,
            mac: Some(MAC),
        };
        let own = Present {
            link: 2,
            address: address(1),
            prefix_length: 24,
            ours: false,
        };
        Self {
            now: Instant::now(),
            applier: Applier::new(None, 0, 0),
            gateways: Vec::new(),
            lease_ms: 0,
            observed: Observed {
                links: vec![link],
                addresses: vec![own],
                tells_origin: true,
            },
            log: Vec::new(),
        }
    }

    fn desire(&mut self, epoch: u64, addresses: &[(u8, Claim)]) {
        let addresses = addresses
            .iter()
            .map(|(last, claim)| egress_ip(*last, *claim));
        let desired = Desired {
            epoch,
            addresses: addresses.collect(),
            gateways: self.gateways.clone(),
            lease_ms: self.lease_ms,
            witnesses: None,
        };
        self.applier.desire(self.now, &desired);
        self.run();
    }

    /// Plans until nothing is left, and does what is planned.
    fn run(&mut self) {
        for _ in 0..10 {
            let steps = self.applier.plan(self.now, &self.observed);
            if steps.is_empty() {
                return;
            }
            for step in steps {
                self.carry_out(&step);
                self.applier.done(self.now, &step, &self.observed);
                self.log.push(step);
            }
        }
        panic!("never at rest: {:#?}", self.log);
    }

    fn carry_out(&mut self, step: &Step) {
        let addresses = &mut self.observed.addresses;
        match step {
            Step::Add { address, link } => addresses.push(Present {
                link: *link,
                address: *address,
                prefix_length: 32,
                ours: true,
            }),
            Step::Remove { address, .. } => addresses.retain(|it| it.address != *address),
            _ => {}
        }
    }

    fn pass(&mut self, millis: u64) {
        self.now += Duration::from_millis(millis);
        self.run();
    }

    fn has(&self, last: u8) -> bool {
        let mut addresses = self.observed.addresses.iter();
        addresses.any(|it| it.address == address(last) && it.ours)
    }

    fn position(&self, wanted: impl Fn(&Step) -> bool) -> usize {
        self.log.iter().position(wanted).unwrap()
    }

    fn state(&self) -> AddressState {
        self.applier.reports()[0].state.clone()
    }
}

#[test]
fn removals_come_before_additions_and_the_epoch_last() {
    let mut world = World::new();
    world.desire(1, &[(100, Claim::Failover)]);
    world.log.clear();
    world.desire(2, &[(101, Claim::Failover)]);
    let remove = world.position(|step| matches!(step, Step::Remove { .. }));
    let flush = world.position(|step| matches!(step, Step::Flush { .. }));
    let add = world.position(|step| matches!(step, Step::Add { .. }));
    let applied = world.position(|step| matches!(step, Step::Applied { epoch: 2 }));
    assert!(
        remove < flush && flush < add && add < applied,
        "{:#?}",
        world.log
    );
}

#[test]
fn rules_guard_an_address_before_it_is_added_and_until_it_is_gone() {
    let mut world = World::new();
    let guards =
        |step: &Step| matches!(step, Step::Rules(rules) if rules.guarded.contains(&address(100)));
    let steers = |step: &Step| matches!(step, Step::Rules(rules) if !rules.steering.is_empty());
    world.desire(1, &[(100, Claim::Failover)]);
    let add = world.position(|step| matches!(step, Step::Add { .. }));
    assert!(world.position(guards) < add);
    world.log.clear();
    world.desire(2, &[]);
    let remove = world.position(|step| matches!(step, Step::Remove { .. }));
    assert!(world.position(guards) < remove);
    assert!(!world.log.iter().any(steers));
}

#[test]
fn a_first_claim_waits_for_the_probe_and_a_failover_does_not() {
    let mut world = World::new();
    world.desire(1, &[(100, Claim::First), (101, Claim::Failover)]);
    assert!(!world.has(100) && world.has(101));
    assert!(!world.applier.is_tried());
    world.pass(299);
    assert!(!world.has(100));
    world.pass(1);
    assert!(world.has(100) && world.applier.is_tried());
    assert_eq!(world.applier.applied_epoch(), 1);
}

#[test]
fn a_duplicate_keeps_a_first_claim_off_until_a_probe_stays_unanswered() {
    let mut world = World::new();
    world.desire(1, &[(100, Claim::First)]);
    world
        .applier
        .conflict(world.now, address(100), OTHER, false);
    world.pass(300);
    assert_eq!(world.state(), AddressState::Duplicate { mac: OTHER });
    assert_eq!(world.applier.applied_epoch(), 1);
    world.pass(5_000);
    assert_eq!(world.state(), AddressState::Duplicate { mac: OTHER });
    world.pass(300);
    assert!(world.has(100));
}

#[test]
fn a_conflict_with_a_held_address_is_reported_and_forgotten_after_silence() {
    let mut world = World::new();
    world.desire(1, &[(100, Claim::Failover)]);
    world
        .applier
        .conflict(world.now, address(100), OTHER, false);
    assert_eq!(world.state(), AddressState::Duplicate { mac: OTHER });
    for _ in 0..4 {
        world.pass(5_000);
    }
    assert!(world.has(100));
    assert_eq!(world.state(), AddressState::Announced);
}

#[test]
fn a_probe_for_a_held_address_is_no_conflict() {
    let mut world = World::new();
    world.desire(1, &[(100, Claim::Failover)]);
    world.applier.conflict(world.now, address(100), OTHER, true);
    assert_eq!(world.state(), AddressState::Announced);
}

#[test]
fn an_address_is_announced_at_once_and_five_more_times_over_five_seconds() {
    let mut world = World::new();
    world.desire(1, &[(100, Claim::Failover)]);
    for _ in 0..100 {
        world.pass(100);
    }
    let announced = |step: &&Step| matches!(step, Step::Announce { .. });
    assert_eq!(world.log.iter().filter(announced).count(), 6);
}

#[test]
fn an_epoch_is_not_applied_while_something_cannot_be_released() {
    let mut world = World::new();
    world.desire(1, &[(100, Claim::Failover)]);
    let nothing = Desired {
        epoch: 2,
        ..Desired::default()
    };
    world.applier.desire(world.now, &nothing);
    let steps = world.applier.plan(world.now, &world.observed);
    let fails = |step: &Step| matches!(step, Step::Remove { .. });
    for step in &steps {
        if world.applier.is_void(step) {
            continue;
        }
        assert!(!matches!(step, Step::Flush { .. }), "it is still there");
        match fails(step) {
            true => world.applier.failed(world.now, step, "no".to_owned()),
            false => world.applier.done(world.now, step, &world.observed),
        }
    }
    assert!(world.applier.is_tried());
    assert_eq!(world.applier.applied_epoch(), 1);
    let error = "cannot be released: no".to_owned();
    assert_eq!(world.state(), AddressState::Failed { error });
    world.pass(1_000);
    assert_eq!(world.applier.applied_epoch(), 2);
    assert!(!world.has(100));
}

#[test]
fn what_is_found_without_a_record_stays_until_a_set_is_told() {
    let mut world = World::new();
    world.desire(7, &[(100, Claim::Failover)]);
    world.applier = Applier::new(None, 7, 0);
    world.log.clear();
    world.run();
    assert!(world.has(100) && world.log.is_empty());
    world.desire(7, &[(101, Claim::Failover)]);
    assert!(!world.has(100) && world.has(101));
}

#[test]
fn an_address_that_somebody_else_put_on_the_node_is_neither_claimed_nor_released() {
    let mut world = World::new();
    world.observed.addresses.push(Present {
        link: 2,
        address: address(100),
        prefix_length: 32,
        ours: false,
    });
    world.desire(1, &[(100, Claim::Failover)]);
    assert!(matches!(world.state(), AddressState::Failed { .. }));
    world.desire(2, &[]);
    let touched = |step: &Step| {
        matches!(
            step,
            Step::Add { .. } | Step::Remove { .. } | Step::Flush { .. }
        )
    };
    assert!(!world.log.iter().any(touched), "{:#?}", world.log);
}

#[test]
fn without_rules_nothing_is_claimed_or_flushed_and_no_epoch_applied_until_they_are_in_force() {
    let mut world = World::new();
    world.desire(1, &[(100, Claim::Failover)]);
    let another = Desired {
        epoch: 2,
        addresses: vec![egress_ip(101, Claim::Failover)],
        gateways: Vec::new(),
        lease_ms: 0,
        witnesses: None,
    };
    world.applier.desire(world.now, &another);
    for step in world.applier.plan(world.now, &world.observed) {
        if world.applier.is_void(&step) {
            continue;
        }
        assert!(!matches!(
            step,
            Step::Add { .. } | Step::Flush { .. } | Step::Applied { .. }
        ));
        match step {
            Step::Rules(_) => world.applier.failed(world.now, &step, "no".to_owned()),
            _ => world.applier.done(world.now, &step, &world.observed),
        }
    }
    assert!(world.applier.is_tried());
    assert!(world.applier.plan(world.now, &world.observed).is_empty());
    world.pass(2_000);
    assert!(world.has(101) && !world.has(100));
    assert_eq!(world.applier.applied_epoch(), 2);
}

impl World {
    fn set_link(&mut self, up: bool) {
        self.observed.links[0].up = up;
        self.run();
    }

    fn announcements(&self) -> usize {
        let announced = |step: &&Step| matches!(step, Step::Announce { .. });
        self.log.iter().filter(announced).count()
    }

    /// The address is announced, and then taken over while the link was down.
    fn taken_over() -> Self {
        let mut world = Self::new();
        world.desire(1, &[(100, Claim::Failover)]);
        world.pass(1_500);
        world.set_link(false);
        world.pass(2_000);
        world.log.clear();
        world.set_link(true);
        world
            .applier
            .conflict(world.now, address(100), OTHER, false);
        world
    }
}

#[test]
fn after_its_link_was_down_an_address_is_announced_when_nobody_else_answers_for_it() {
    let mut world = World::new();
    world.desire(1, &[(100, Claim::Failover)]);
    world.set_link(false);
    world.log.clear();
    world.set_link(true);
    assert_eq!(world.announcements(), 0);
    for _ in 0..4 {
        world.pass(100);
    }
    assert!(world.announcements() > 0);
}

#[test]
fn an_address_that_was_taken_over_while_the_link_was_down_is_left_to_its_new_owner() {
    let mut world = World::taken_over();
    for _ in 0..10 {
        world.pass(1_000);
        world
            .applier
            .conflict(world.now, address(100), OTHER, false);
    }
    assert_eq!(world.announcements(), 0);
    assert_eq!(world.state(), AddressState::Duplicate { mac: OTHER });
}

#[test]
fn an_address_that_was_taken_over_is_announced_at_once_when_the_node_is_told_anew() {
    let mut world = World::taken_over();
    world.pass(100);
    world.desire(2, &[(100, Claim::Failover)]);
    assert_eq!(world.announcements(), 1);
    assert_eq!(world.state(), AddressState::Announced);
}

#[test]
fn an_answer_of_the_nodes_own_is_no_conflict() {
    let mut world = World::new();
    world.desire(1, &[(100, Claim::Failover)]);
    world.applier.conflict(world.now, address(100), MAC, false);
    assert_eq!(world.state(), AddressState::Announced);
}
