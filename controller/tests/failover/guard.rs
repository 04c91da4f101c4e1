//! When most nodes are lost at once, the controller suspects itself.

use std::time::Duration;

use controller::failover::{Event, Observation};
use controller::health::State;

use crate::world::{SETTINGS, TIMEOUT, World};

fn twenty() -> World {
    let mut world = World::with(SETTINGS, 20, &["10.78.0.0/28", "10.78.1.0/30"]);
    world.pass(Duration::from_secs(60));
    world.events.clear();
    world
}

/// The controller's own link is cut: nodes fall one after the other, spread over a period, and all
/// are silent since before.
fn cut_all(world: &mut World) {
    let heard = world.now.instant;
    let available = Observation {
        state: State::Available,
        since: world.now.wall,
        heard: Some(heard),
        path_down: false,
    };
    world.now.instant += TIMEOUT;
    for name in world.node_names() {
        world.planner.handle_state(world.now, &name, available);
    }
    for name in world.node_names() {
        world.now.instant += Duration::from_millis(10);
        world.set_state(&name, State::Unreachable);
    }
}

#[test]
fn a_controller_that_is_cut_off_moves_nothing() {
    let mut world = twenty();
    let before = world.owners();
    cut_all(&mut world);
    world.pass(Duration::from_secs(600));
    assert_eq!(world.owners(), before);
    assert_eq!(world.events, [Event::Held { lost: 20, of: 20 }]);
    assert!(
        world
            .planner
            .view(world.now.instant)
            .failover
            .held
            .is_some()
    );
}

#[test]
fn nothing_moves_when_its_link_is_back_either() {
    let mut world = twenty();
    let before = world.owners();
    cut_all(&mut world);
    world.pass(Duration::from_secs(600));
    for name in world.node_names() {
        world.pass(Duration::from_millis(10));
        world.set_state(&name, State::Available);
    }
    world.pass(SETTINGS.guard.window);
    assert_eq!(world.owners(), before);
    assert_eq!(world.events.last(), Some(&Event::Resumed));
}

#[test]
fn sixty_percent_lost_at_once_are_held_until_enough_are_back() {
    let mut world = twenty();
    let lost: Vec<String> = world.node_names().into_iter().take(12).collect();
    for name in &lost {
        world.observe(name, State::Unreachable);
    }
    world.run();
    world.pass(Duration::from_secs(600));
    assert_eq!(world.moves(), []);
    world.set_state(&lost[0], State::Available);
    world.pass(SETTINGS.guard.window);
    let owners = world.owners();
    let has_one = |name: &String| owners.values().flatten().any(|owner| owner == name);
    assert!(!lost[1..].iter().any(has_one), "{owners:?}");
    assert_eq!(world.assigned(), 20);
}

#[test]
fn whoever_drains_a_lost_node_says_that_it_is_down() {
    let mut world = twenty();
    let lost: Vec<String> = world.node_names().into_iter().take(12).collect();
    for name in &lost {
        world.observe(name, State::Unreachable);
    }
    world.run();
    world.drain(&lost[0]);
    assert!(
        !world
            .owners()
            .values()
            .flatten()
            .any(|owner| *owner == lost[0])
    );
    assert!(
        world
            .owners()
            .values()
            .flatten()
            .any(|owner| *owner == lost[1])
    );
}

#[test]
fn half_of_the_nodes_are_moved_at_once() {
    let mut world = twenty();
    for name in world.node_names().into_iter().take(10) {
        world.observe(&name, State::Unreachable);
    }
    world.run();
    assert_eq!(world.assigned(), 20);
    assert!(!world.moves().is_empty());
}

#[test]
fn while_it_holds_live_nodes_can_still_be_drained() {
    let mut world = twenty();
    for name in world.node_names().into_iter().take(12) {
        world.observe(&name, State::Unreachable);
    }
    world.run();
    let live = world.node_names().pop().unwrap();
    world.drain(&live);
    assert!(
        !world
            .owners()
            .values()
            .flatten()
            .any(|owner| *owner == live)
    );
}

#[test]
fn nodes_that_were_never_heard_are_no_mass_failure() {
    let mut world = World::with(SETTINGS, 2, &["10.78.0.100"]);
    world.set_nodes((1..=4).map(|index| format!("n{index}")));
    world.set_state("n3", State::Unreachable);
    world.set_state("n4", State::Unreachable);
    let owner = world.owner().unwrap();
    world.set_state(&owner, State::Unreachable);
    assert_ne!(world.owner(), Some(owner));
}
