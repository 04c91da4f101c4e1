//! When an address moves, when it does not, and when it waits.

use std::time::Duration;

use controller::failover::{Cause, PlannerSettings};
use controller::health::State;
use probe_user::egress::Claim;

use crate::world::{SETTINGS, World, gateway, ip};

fn two_nodes() -> (World, String, String) {
    let world = World::with(SETTINGS, 2, &["10.78.0.100"]);
    let owner = world.owner().unwrap();
    let other = if owner == "n1" { "n2" } else { "n1" };
    (world, owner, other.to_owned())
}

#[test]
fn an_unreachable_owner_loses_its_address_at_once() {
    let (mut world, owner, other) = two_nodes();
    world.cut(&owner);
    assert_eq!(world.owner(), Some(other.clone()));
    assert_eq!(world.told[&owner].addresses, []);
    assert_eq!(world.told[&other].addresses[0].claim, Claim::Failover);
    assert_eq!(
        world.moves(),
        [("10.78.0.100".to_owned(), Cause::Unreachable)]
    );
}

#[test]
fn a_first_placement_probes_for_duplicates() {
    let (world, owner, _) = two_nodes();
    assert_eq!(world.told[&owner].addresses[0].claim, Claim::First);
}

#[test]
fn a_silent_agent_moves_nothing_however_long() {
    let (mut world, owner, _) = two_nodes();
    world.set_state(&owner, State::Unavailable);
    world.pass(Duration::from_secs(3600));
    world.set_state(&owner, State::Available);
    assert_eq!(world.owner(), Some(owner));
    assert_eq!(world.moves(), []);
}

#[test]
fn a_node_that_only_others_hear_keeps_its_address_and_gets_no_other() {
    let (mut world, owner, other) = two_nodes();
    world.path_down = [owner.clone(), other.clone()].into();
    world.set_state(&owner, State::Available);
    world.set_state(&other, State::Available);
    world.set_gateways(vec![gateway("gw", &["10.78.0.100", "10.78.0.101"])]);
    world.run();
    world.pass(Duration::from_secs(3600));
    assert_eq!(world.owners()[&ip("10.78.0.100")], Some(owner.clone()));
    assert_eq!(world.owners()[&ip("10.78.0.101")], None);
    let why = world.explain("10.78.0.101");
    assert!(
        why.contains(&format!("{owner} is heard by others only")),
        "{why}"
    );
    world.path_down.clear();
    world.set_state(&owner, State::Available);
    assert!(world.owners()[&ip("10.78.0.101")].is_some());
}

#[test]
fn recovery_moves_nothing() {
    let (mut world, owner, other) = two_nodes();
    world.cut(&owner);
    world.heal(&owner);
    world.pass(Duration::from_secs(3600));
    assert_eq!(world.owner(), Some(other));
}

#[test]
fn failback_brings_the_address_home_after_its_time() {
    let settings = PlannerSettings {
        failback: Some(Duration::from_secs(60)),
        ..SETTINGS
    };
    let mut world = World::with(settings, 3, &["10.78.0.100"]);
    let owner = world.owner().unwrap();
    world.cut(&owner);
    world.heal(&owner);
    world.pass(Duration::from_secs(59));
    assert_ne!(world.owner(), Some(owner.clone()));
    let due = world.now.instant + Duration::from_secs(1);
    assert_eq!(world.planner.next_wake(), Some(due));
    world.pass(Duration::from_secs(1));
    assert_eq!(world.owner(), Some(owner));
}

#[test]
fn an_address_that_was_to_go_home_stays_if_its_home_falls_meanwhile() {
    let settings = PlannerSettings {
        failback: Some(Duration::from_secs(60)),
        ..SETTINGS
    };
    let mut world = World::with(settings, 2, &["10.78.0.100"]);
    let home = world.owner().unwrap();
    world.cut(&home);
    world.heal(&home);
    let other = world.owner().unwrap();
    world.mute.insert(other.clone());
    world.pass(Duration::from_secs(60));
    world.pass(Duration::from_secs(1));
    assert_eq!(
        world.told[&other].addresses,
        [],
        "it is asked to release it"
    );
    world.set_state(&home, State::Unreachable);
    assert_eq!(world.told[&other].addresses.len(), 1);
    assert_eq!(world.owner(), Some(other));
}

#[test]
fn a_node_that_is_no_longer_selected_or_configured_loses_its_address() {
    let (mut world, owner, other) = two_nodes();
    world.select(&owner, false);
    assert_eq!(world.owner(), Some(other.clone()));
    world.set_nodes([owner.clone()]);
    world.run();
    assert_eq!(world.owner(), Some(owner));
    let causes: Vec<Cause> = world.moves().into_iter().map(|(_, cause)| cause).collect();
    assert_eq!(causes, [Cause::Unselected, Cause::Deleted]);
}

#[test]
fn a_planned_move_waits_until_the_owner_has_confirmed() {
    let (mut world, owner, other) = two_nodes();
    world.mute.insert(owner.clone());
    world.drain(&owner);
    assert_eq!(world.owner(), Some(owner.clone()));
    assert_eq!(world.told[&owner].addresses, []);
    assert_eq!(world.told[&other].addresses, []);
    assert!(world.explain("10.78.0.100").contains("has not confirmed"));
    world.mute.clear();
    world.confirm(&owner);
    world.run();
    assert_eq!(world.owner(), Some(other));
}

#[test]
fn a_planned_move_does_not_wait_for_an_owner_that_dies_meanwhile() {
    let (mut world, owner, other) = two_nodes();
    world.mute.insert(owner.clone());
    world.drain(&owner);
    world.cut(&owner);
    assert_eq!(world.owner(), Some(other));
}

#[test]
fn a_planned_move_waits_while_the_owners_agent_is_silent() {
    let (mut world, owner, other) = two_nodes();
    world.set_state(&owner, State::Unavailable);
    world.drain(&owner);
    world.pass(Duration::from_secs(60));
    assert_eq!(world.owner(), Some(owner.clone()));
    assert!(world.explain("10.78.0.100").contains("agent is silent"));
    assert!(world.explain(&owner).contains("agent is silent"));
    world.set_state(&owner, State::Available);
    assert_eq!(world.owner(), Some(other));
}

#[test]
fn a_drained_node_keeps_serving_until_another_can() {
    let (mut world, owner, other) = two_nodes();
    world.cut(&other);
    world.drain(&owner);
    assert_eq!(world.owner(), Some(owner.clone()));
    assert!(
        world
            .explain("10.78.0.100")
            .contains("no other candidate has room")
    );
    world.heal(&other);
    assert_eq!(world.owner(), Some(other));
}

#[test]
fn without_a_candidate_an_address_has_no_owner_but_a_reason() {
    let (mut world, owner, other) = two_nodes();
    world.cut(&other);
    world.cut(&owner);
    assert_eq!(world.owner(), None);
    let why = world.explain("10.78.0.100");
    assert!(
        why.contains("n1 is UNREACHABLE, n2 is UNREACHABLE"),
        "{why}"
    );
    world.select(&owner, false);
    world.select(&other, false);
    assert!(
        world
            .explain("10.78.0.100")
            .contains("gateway gw selects no node")
    );
}

#[test]
fn an_address_that_belongs_to_no_gateway_any_more_is_released_and_forgotten() {
    let (mut world, owner, _) = two_nodes();
    world.set_gateways(vec![gateway("gw", &["10.78.0.101"])]);
    world.run();
    let addresses = &world.told[&owner].addresses;
    assert!(
        addresses
            .iter()
            .all(|told| told.address != ip("10.78.0.100"))
    );
    assert_eq!(world.owners().len(), 1);
    assert_eq!(world.assigned(), 1);
    let record = world.record.unwrap();
    assert!(
        !record.addresses.contains_key(&ip("10.78.0.100")),
        "{record:?}"
    );
}

#[test]
fn a_gateway_with_other_sources_tells_its_owners_and_moves_nothing() {
    let (mut world, owner, _) = two_nodes();
    let before = world.told[&owner].epoch;
    let mut changed = gateway("gw", &["10.78.0.100"]);
    changed.sources = vec!["10.1.0.0/16".parse().unwrap()];
    world.set_gateways(vec![changed.clone()]);
    world.run();
    assert!(world.told[&owner].epoch > before);
    assert_eq!(world.told[&owner].addresses[0].sources, changed.sources);
    assert_eq!(world.moves(), []);
}

#[test]
fn a_node_that_keeps_falling_gets_nothing_until_it_has_stood() {
    let (mut world, owner, other) = two_nodes();
    for _ in 0..3 {
        world.cut(&owner);
        world.heal(&owner);
    }
    world.cut(&other);
    assert_eq!(world.owner(), None);
    assert!(world.explain(&owner).contains("fell too often"));
    world.pass(Duration::from_secs(30));
    assert_eq!(world.owner(), Some(owner));
}

#[test]
fn disabled_it_shows_states_and_tells_nobody_anything() {
    let settings = PlannerSettings {
        enabled: false,
        ..SETTINGS
    };
    let mut world = World::with(settings, 2, &["10.78.0.100"]);
    world.cut("n1");
    assert_eq!(world.owner(), None);
    assert!(world.told.is_empty());
    assert_eq!(world.record, None);
    assert!(
        world
            .explain("10.78.0.100")
            .contains("failover is disabled")
    );
    assert!(world.explain("n1").contains("UNREACHABLE"));
}

#[test]
fn a_move_tells_how_long_each_step_took() {
    let (mut world, owner, other) = two_nodes();
    world.mute.insert(other.clone());
    world.events.clear();
    world.cut(&owner);
    world.pass(Duration::from_secs(2));
    world.mute.clear();
    world.confirm(&other);
    world.run();
    let completed = world.events.iter().find_map(|event| match event {
        controller::failover::Event::Completed { phases, .. } => Some(phases.clone()),
        _ => None,
    });
    let phases = completed.unwrap();
    let names: Vec<&str> = phases.iter().map(|(phase, _)| phase.as_str()).collect();
    assert_eq!(names, ["revoke", "safe", "record", "place", "announce"]);
    assert_eq!(phases[3].1, Duration::from_secs(2));
}
