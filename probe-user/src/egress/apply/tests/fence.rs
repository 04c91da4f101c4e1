//! What the kernel guards, and when.

use probe_ebpf::maps::Guard;

use super::*;

/// A candidate of gateway `g`, whose addresses are 10.78.0.8 to 10.78.0.15.
fn candidate(lease_ms: u32) -> World {
    let mut world = World::new();
    world.lease_ms = lease_ms;
    world.gateways = vec![Gateway {
        name: "g".to_owned(),
        egress_ips: vec!["10.78.0.8/29".parse().unwrap()],
        sources: Vec::new(),
        interface: None,
        routed: false,
    }];
    world
}

impl World {
    /// The guards that were put into force last.
    fn guards(&self) -> Guards {
        let guards = |step: &Step| match step {
            Step::Guard(guards) => Some(guards.clone()),
            _ => None,
        };
        self.log.iter().rev().find_map(guards).unwrap()
    }
}

fn is_shut(step: &Step, last: u8) -> bool {
    matches!(step, Step::Guard(guards) if guards.get(&address(last)) == Some(&Guard::Shut))
}

#[test]
fn all_addresses_of_its_gateways_are_guarded_and_its_own_pass_under_the_lease() {
    let mut world = candidate(1_000);
    world.desire(1, &[(9, Claim::Failover)]);
    let guards = world.guards();
    assert_eq!(guards.len(), 8);
    for (guarded, guard) in guards {
        let own = guarded == address(9);
        assert_eq!(guard == Guard::Own, own, "{guarded}");
    }
}

#[test]
fn an_address_is_guarded_and_its_device_fenced_before_it_is_there() {
    let mut world = candidate(1_000);
    world.desire(1, &[(9, Claim::Failover)]);
    let guarded = world.position(|step| matches!(step, Step::Guard(_)));
    let fenced =
        world.position(|step| matches!(step, Step::Fence { devices } if devices.contains(&2)));
    let added = world.position(|step| matches!(step, Step::Add { .. }));
    assert!(guarded < fenced && fenced < added);
}

#[test]
fn an_address_is_shut_before_it_is_taken_off() {
    let mut world = candidate(1_000);
    world.desire(1, &[(9, Claim::Failover)]);
    world.log.clear();
    world.desire(2, &[]);
    let shut = world.position(|step| is_shut(step, 9));
    let removed = world.position(|step| matches!(step, Step::Remove { .. }));
    assert!(shut < removed);
}

#[test]
fn a_stray_address_of_an_earlier_life_is_shut_before_it_is_taken_off() {
    let mut world = candidate(1_000);
    world.observed.addresses.push(Present {
        link: 2,
        address: address(9),
        prefix_length: 32,
        ours: true,
    });
    world.desire(1, &[]);
    let shut = world.position(|step| is_shut(step, 9));
    let removed = world.position(|step| matches!(step, Step::Remove { .. }));
    assert!(shut < removed);
}

#[test]
fn nothing_is_guarded_without_a_lease() {
    let mut world = candidate(0);
    world.desire(1, &[(9, Claim::Failover)]);
    assert!(world.guards().is_empty());
    assert!(world.has(9));
}

#[test]
fn guards_go_when_the_controller_does_without_a_fence() {
    let mut world = candidate(1_000);
    world.desire(1, &[(9, Claim::Failover)]);
    world.lease_ms = 0;
    world.desire(2, &[(9, Claim::Failover)]);
    assert!(world.guards().is_empty());
}

#[test]
fn without_guards_no_address_is_added_and_no_epoch_applied() {
    let mut world = candidate(1_000);
    let desired = Desired {
        epoch: 1,
        addresses: vec![egress_ip(9, Claim::Failover)],
        gateways: world.gateways.clone(),
        lease_ms: 1_000,
        witnesses: None,
    };
    world.applier.desire(world.now, &desired);
    let steps = world.applier.plan(world.now, &world.observed);
    let guard = steps
        .iter()
        .find(|step| matches!(step, Step::Guard(_)))
        .unwrap();
    world
        .applier
        .failed(world.now, guard, "the map is full".to_owned());
    let add = Step::Add {
        address: address(9),
        link: 2,
    };
    assert!(world.applier.is_void(&add));
    assert!(
        !steps
            .iter()
            .any(|step| matches!(step, Step::Applied { .. }))
    );
    world.pass(5_100);
    assert!(world.has(9), "it is tried again");
}

#[test]
fn every_device_by_which_packets_may_leave_is_fenced() {
    let mut world = candidate(1_000);
    for (index, name) in [(3, "eth1"), (4, "eth2")] {
        world.observed.links.push(Link {
            index,
            name: name.to_owned(),
            loopback: false,
            up: true,
            mac: Some(MAC),
        });
    }
    world.observed.addresses.push(Present {
        link: 3,
        address: IpAddr::from([10, 77, 0, 1]),
        prefix_length: 24,
        ours: false,
    });
    world.desire(1, &[(9, Claim::Failover)]);
    let fenced = world.log.iter().find_map(|step| match step {
        Step::Fence { devices } => Some(devices.clone()),
        _ => None,
    });
    assert_eq!(fenced, Some(BTreeSet::from([2, 3])));
}

#[test]
fn an_epoch_whose_guards_failed_is_not_applied() {
    let mut world = candidate(0);
    world.desire(1, &[(9, Claim::Failover)]);
    let desired = Desired {
        epoch: 2,
        addresses: vec![egress_ip(9, Claim::Failover)],
        gateways: world.gateways.clone(),
        lease_ms: 1_000,
        witnesses: None,
    };
    world.applier.desire(world.now, &desired);
    let steps = world.applier.plan(world.now, &world.observed);
    let applied = Step::Applied { epoch: 2 };
    assert!(steps.contains(&applied));
    let is_guard = |step: &&Step| matches!(step, Step::Guard(_));
    let guard = steps.iter().find(is_guard).unwrap();
    world
        .applier
        .failed(world.now, guard, "the map is full".to_owned());
    assert!(world.applier.is_void(&applied));
}

#[test]
fn what_an_earlier_life_left_is_shut_before_anything_is_told() {
    let mut world = candidate(0);
    world.observed.addresses.push(Present {
        link: 2,
        address: address(9),
        prefix_length: 32,
        ours: true,
    });
    world.run();
    let shut = world.position(|step| is_shut(step, 9));
    let removed = world.position(|step| matches!(step, Step::Remove { .. }));
    assert!(shut < removed);
}
