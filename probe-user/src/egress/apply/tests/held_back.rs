use super::*;

fn gateway() -> Gateway {
    Gateway {
        name: "g".to_owned(),
        egress_ips: vec!["10.78.0.100/30".parse().unwrap()],
        sources: egress_ip(100, Claim::First).sources,
        interface: None,
        routed: false,
    }
}

fn candidate() -> World {
    let mut world = World::new();
    world.gateways.push(gateway());
    world
}

/// Where the sources are held back, by the rules in force.
fn exits(world: &World) -> Vec<&String> {
    world.applier.rules().unwrap().held_back.keys().collect()
}

#[test]
fn sources_are_held_back_on_a_candidate_unless_it_has_their_address() {
    let mut world = candidate();
    world.desire(1, &[]);
    assert_eq!(exits(&world), ["eth0"]);
    world.desire(2, &[(100, Claim::Failover)]);
    assert!(exits(&world).is_empty());
    world.desire(3, &[]);
    assert_eq!(exits(&world), ["eth0"]);
}

#[test]
fn sources_are_held_back_by_the_very_rules_that_no_longer_steer_them() {
    let mut world = candidate();
    world.desire(1, &[(100, Claim::Failover)]);
    world.log.clear();
    world.desire(2, &[]);
    let held_back = |step: &Step| matches!(step, Step::Rules(rules) if !rules.held_back.is_empty());
    let remove = world.position(|step| matches!(step, Step::Remove { .. }));
    assert_eq!(world.position(held_back) + 1, remove);
}

#[test]
fn sources_are_held_back_while_a_claim_waits_for_its_probe() {
    let mut world = candidate();
    world.desire(1, &[(100, Claim::First)]);
    assert_eq!(exits(&world), ["eth0"]);
    world.pass(300);
    assert!(exits(&world).is_empty());
}

#[test]
fn a_node_that_gives_up_the_gateway_with_its_address_holds_back_for_a_while() {
    let mut world = candidate();
    world.desire(1, &[(100, Claim::Failover)]);
    world.gateways.clear();
    world.desire(2, &[]);
    assert_eq!(exits(&world), ["eth0"]);
    assert!(world.applier.is_settled());
    world.pass(4_999);
    assert_eq!(exits(&world), ["eth0"]);
    let end = world.applier.next_wake(world.now).unwrap();
    assert_eq!(end, world.now + Duration::from_millis(1));
    world.pass(1);
    assert!(exits(&world).is_empty());
}

#[test]
fn a_node_that_had_no_address_gives_a_gateway_up_at_once() {
    let mut world = candidate();
    world.desire(1, &[]);
    world.gateways.clear();
    world.desire(2, &[]);
    assert!(exits(&world).is_empty());
}

#[test]
fn sources_are_held_back_where_the_gateway_says_that_its_addresses_belong() {
    let mut world = candidate();
    world.gateways[0].interface = Some("eth7".to_owned());
    world.desire(1, &[]);
    assert!(exits(&world).is_empty(), "there is no such interface yet");
    world.observed.links[0].name = "eth7".to_owned();
    world.run();
    assert_eq!(exits(&world), ["eth7"]);
}

#[test]
fn nothing_is_held_back_for_addresses_that_belong_to_no_interface() {
    let mut world = candidate();
    world.gateways[0].routed = true;
    let loopback = Link {
        index: 1,
        name: "lo".to_owned(),
        loopback: true,
        up: true,
        mac: None,
    };
    world.observed.links.push(loopback);
    world.desire(1, &[]);
    assert!(exits(&world).is_empty());
}
