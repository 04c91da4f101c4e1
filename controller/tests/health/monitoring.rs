//! Who is monitored, at which addresses, and what that does to states.

use std::time::Duration;

use controller::health::{HealthSettings, Output, Reason, State};

use crate::world::{NODE, SETTINGS, World, seconds};

#[test]
fn a_node_that_interests_nobody_any_more_or_is_deleted_is_unknown() {
    for state in [State::Available, State::Unavailable, State::Unreachable] {
        let mut world = World::in_state(state);
        world.health.end(world.now, NODE);
        assert_eq!(world.state(), State::Unknown);
        let outputs = world.outputs();
        assert!(
            matches!(outputs[..], [Output::Changed { from, to, .. }]
                if from == state && to.reason == Reason::NotMonitored),
            "{outputs:?}"
        );
    }
}

#[test]
fn nothing_that_still_arrives_of_a_forgotten_node_changes_anything() {
    let mut world = World::in_state(State::Available);
    world.health.end(world.now, NODE);
    world.outputs();
    world.reply(true);
    world.pass(seconds(1000));
    world.no_reply();
    assert_eq!(world.state(), State::Unknown);
    assert_eq!(world.outputs(), []);
}

#[test]
fn interest_that_returns_begins_from_unknown() {
    let mut world = World::in_state(State::Unavailable);
    world.health.end(world.now, NODE);
    world.health.begin(world.now, NODE, true, None);
    assert_eq!(world.state(), State::Unknown);
    world.reply(false);
    assert_eq!(world.state(), State::Unreachable);
}

#[test]
fn beginning_what_has_begun_changes_nothing() {
    let mut world = World::in_state(State::Unavailable);
    world.health.begin(world.now, NODE, true, None);
    assert_eq!(world.state(), State::Unavailable);
}

#[test]
fn a_node_without_an_address_is_unreachable_at_once() {
    let mut world = World::empty(SETTINGS);
    world.health.begin(world.now, NODE, false, None);
    assert_eq!(world.state(), State::Unreachable);
    assert_eq!(world.health.node(NODE).unwrap().reason(), Reason::NoAddress);
}

#[test]
fn a_node_that_loses_its_last_address_is_unreachable_at_once() {
    let mut world = World::in_state(State::Available);
    world.health.handle_no_address(world.now, NODE);
    assert_eq!(world.state(), State::Unreachable);
}

#[test]
fn a_node_that_gets_an_address_again_answers_its_way_back() {
    let mut world = World::in_state(State::Available);
    world.health.handle_no_address(world.now, NODE);
    world.health.handle_new_addresses(world.now, NODE);
    assert_eq!(world.state(), State::Unreachable);
    world.reply(true);
    assert_eq!(world.state(), State::Available);
}

#[test]
fn a_changed_address_keeps_the_state_and_gets_the_whole_timeout() {
    for state in [State::Available, State::Unavailable] {
        let mut world = World::in_state(state);
        world.pass(seconds(59));
        world.health.handle_new_addresses(world.now, NODE);
        world.pass(seconds(60));
        world.no_reply();
        assert_eq!(world.state(), state);
        world.pass(seconds(1));
        world.no_reply();
        assert_eq!(world.state(), State::Unreachable);
    }
}

#[test]
fn one_node_shares_no_deadline_with_another() {
    let mut world = World::in_state(State::Available);
    let other = controller::health::NodeIndex(1);
    world.pass(seconds(50));
    world.health.begin(world.now, other, true, None);
    world.pass(seconds(20));
    world.no_reply();
    world.health.handle_round(other, world.now, Duration::ZERO);
    assert_eq!(world.state(), State::Unreachable);
    assert_eq!(world.health.state(other), State::Unknown);
}

#[test]
fn with_monitoring_disabled_every_node_is_available_whatever_happens() {
    let mut world = World::empty(HealthSettings {
        timeout: Duration::ZERO,
        ..SETTINGS
    });
    let addressless = controller::health::NodeIndex(1);
    world.health.begin(world.now, NODE, true, None);
    world.health.begin(world.now, addressless, false, None);
    world.pass(seconds(1000));
    world.no_reply();
    world.reply(false);
    world.health.handle_no_address(world.now, addressless);
    assert_eq!(world.state(), State::Available);
    assert_eq!(world.health.state(addressless), State::Available);
}

#[test]
fn with_monitoring_disabled_a_deleted_node_is_still_unknown() {
    let mut world = World::empty(HealthSettings {
        timeout: Duration::ZERO,
        ..SETTINGS
    });
    world.health.begin(world.now, NODE, true, None);
    world.health.end(world.now, NODE);
    assert_eq!(world.state(), State::Unknown);
}
