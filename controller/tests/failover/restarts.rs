//! A new controller goes on where the last one was.

use std::time::Duration;

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
