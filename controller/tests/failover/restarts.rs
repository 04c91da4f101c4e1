//! A new controller goes on where the last one was.

use std::time::Duration;

use controller::failover::PlannerSettings;
use controller::health::State;

use crate::world::{SETTINGS, World, gateway};

const POOL: [&str; 1] = ["10.78.0.0/28"];

#[test]
fn a_restart_moves_nothing_and_claims_the_next_term() {
    let mut world = World::with(SETTINGS, 4, &POOL);
    world.cut("n1");
    world.heal("n1");
    let (before, told) = (world.owners(), world.told.clone());
    world.restart(SETTINGS, vec![gateway("gw", &POOL)]);
    world.pass(Duration::from_secs(60));
    assert_eq!(world.owners(), before);
    assert_eq!(world.record.as_ref().unwrap().term, 2);
    for (node, told) in told {
        assert_eq!(world.told[&node].addresses, told.addresses);
        assert_eq!(world.told[&node].epoch >> 32, 2);
    }
}

#[test]
fn what_was_recorded_counts_as_told() {
    let mut world = World::with(SETTINGS, 2, &["10.78.0.100"]);
    let owner = world.owner().unwrap();
    world.mute.insert("n1".to_owned());
    world.mute.insert("n2".to_owned());
    world.cut(&owner);
    let successor = world.owner();
    world.restart(SETTINGS, vec![gateway("gw", &["10.78.0.100"])]);
    assert_eq!(world.owner(), successor);
}

#[test]
fn an_owner_that_was_asked_to_release_is_waited_for_by_the_next_controller_too() {
    let mut world = World::with(SETTINGS, 2, &["10.78.0.100"]);
    let owner = world.owner().unwrap();
    world.mute.insert(owner.clone());
    world.drain(&owner);
    world.restart(SETTINGS, vec![gateway("gw", &["10.78.0.100"])]);
    assert_eq!(world.owner(), Some(owner.clone()));
    assert_eq!(world.told[&owner].addresses, []);
    world.mute.clear();
    world.confirm(&owner);
    world.run();
    assert_ne!(world.owner(), Some(owner));
}

#[test]
fn a_drain_outlives_the_controller() {
    let mut world = World::with(SETTINGS, 2, &["10.78.0.100"]);
    let owner = world.owner().unwrap();
    world.drain(&owner);
    world.restart(SETTINGS, vec![gateway("gw", &["10.78.0.100"])]);
    let successor = world.owner().unwrap();
    world.cut(&successor);
    assert_eq!(world.owner(), None);
}

#[test]
fn nodes_that_are_down_at_the_start_are_no_mass_failure() {
    let mut world = World::with(SETTINGS, 4, &POOL);
    for name in ["n1", "n2"] {
        world.cut(name);
    }
    world.restart(SETTINGS, vec![gateway("gw", &POOL)]);
    world.cut("n3");
    assert_eq!(world.assigned(), 16);
    assert!(world.owners().values().flatten().all(|owner| owner == "n4"));
}

#[test]
fn an_owner_whose_state_is_not_known_yet_keeps_its_address() {
    let mut world = World::with(SETTINGS, 2, &["10.78.0.100"]);
    let owner = world.owner().unwrap();
    for name in ["n1", "n2"] {
        world.observe(name, State::Unknown);
    }
    world.restart(SETTINGS, vec![gateway("gw", &["10.78.0.100"])]);
    world.pass(Duration::from_secs(60));
    assert_eq!(world.owner(), Some(owner));
}

/// Two nodes, of which the owner has fallen as often as makes it damped; it stands again.
fn damped() -> (World, String) {
    let mut world = World::with(SETTINGS, 2, &["10.78.0.100"]);
    let node = world.owner().unwrap();
    for _ in 0..3 {
        world.cut(&node);
        world.heal(&node);
    }
    (world, node)
}

fn is_barred(world: &World, node: &str) -> bool {
    let view = world.planner.view(world.now.instant);
    let mut candidates = view.gateways.iter().flat_map(|it| &it.candidates);
    candidates.any(|it| it.node == node && it.barred.is_some())
}

#[test]
fn a_damped_node_stays_damped_for_what_is_left_of_its_hold() {
    let (mut world, node) = damped();
    world.pass(Duration::from_secs(20));
    world.restart(SETTINGS, vec![gateway("gw", &["10.78.0.100"])]);
    assert!(is_barred(&world, &node));
    world.pass(Duration::from_secs(9));
    assert!(is_barred(&world, &node));
    world.pass(Duration::from_secs(1));
    assert!(!is_barred(&world, &node));
    assert!(world.record.unwrap().damping[&node].hold_ms.is_none());
}

#[test]
fn falls_of_before_the_restart_count_and_a_clock_set_back_makes_no_hold_longer_than_a_whole_one() {
    let mut world = World::with(SETTINGS, 2, &["10.78.0.100"]);
    let node = world.owner().unwrap();
    for _ in 0..2 {
        world.cut(&node);
        world.heal(&node);
    }
    world.now.wall -= Duration::from_secs(5);
    world.restart(SETTINGS, vec![gateway("gw", &["10.78.0.100"])]);
    assert!(!is_barred(&world, &node));
    world.cut(&node);
    world.heal(&node);
    assert!(is_barred(&world, &node), "its third fall");
    world.now.wall -= Duration::from_secs(25);
    world.restart(SETTINGS, vec![gateway("gw", &["10.78.0.100"])]);
    world.pass(Duration::from_secs(30));
    assert!(!is_barred(&world, &node));
}

#[test]
fn the_time_until_failback_goes_on() {
    let settings = PlannerSettings {
        failback: Some(Duration::from_secs(60)),
        ..SETTINGS
    };
    let mut world = World::with(settings, 2, &["10.78.0.100"]);
    let home = world.owner().unwrap();
    world.cut(&home);
    world.heal(&home);
    world.pass(Duration::from_secs(50));
    world.restart(settings, vec![gateway("gw", &["10.78.0.100"])]);
    assert_ne!(world.owner().as_ref(), Some(&home));
    world.pass(Duration::from_secs(10));
    assert_eq!(world.owner(), Some(home));
}

#[test]
fn a_node_deleted_while_no_controller_ran_is_told_to_release_until_it_has() {
    let mut world = World::with(SETTINGS, 2, &["10.78.0.100"]);
    let owner = world.owner().unwrap();
    world.delete_unseen(&owner);
    world.mute.insert(owner.clone());
    for term in 2..=3 {
        world.restart(SETTINGS, vec![gateway("gw", &["10.78.0.100"])]);
        let told = &world.told[&owner];
        assert_eq!((told.addresses.len(), told.epoch >> 32), (0, term));
        let record = world.record.as_ref().unwrap();
        assert_eq!(record.reach[&owner].len(), 1);
        assert_ne!(world.owner().as_ref(), Some(&owner));
    }
    world.mute.clear();
    world.confirm(&owner);
    world.run();
    let record = world.record.unwrap();
    assert!(!record.reach.contains_key(&owner) && !record.epochs.contains_key(&owner));
}
