//! What becomes of UNAVAILABLE with time.

use std::time::Duration;

use controller::health::{HealthSettings, Output, Reason, State};

use crate::world::{NODE, SETTINGS, World, seconds};

fn announcements(world: &mut World) -> Vec<Duration> {
    let lasted = |output| match output {
        Output::Announce { lasted, .. } => Some(lasted),
        _ => None,
    };
    world.outputs().into_iter().filter_map(lasted).collect()
}

#[test]
fn a_stalled_agent_that_recovers_in_time_is_no_news() {
    let mut world = World::in_state(State::Unavailable);
    world.pass(seconds(4));
    world.reply(false);
    world.reply(true);
    world.pass(seconds(60));
    world.reply(true);
    assert!(announcements(&mut world).is_empty());
}

#[test]
fn lasting_unavailability_is_announced_once() {
    let mut world = World::in_state(State::Unavailable);
    for _ in 0..20 {
        world.pass(seconds(1));
        world.reply(false);
    }
    assert_eq!(announcements(&mut world), [seconds(5)]);
}

#[test]
fn each_spell_of_unavailability_is_announced() {
    let mut world = World::in_state(State::Unavailable);
    for _ in 0..2 {
        world.pass(seconds(5));
        world.reply(false);
        world.reply(true);
        world.reply(false);
    }
    assert_eq!(announcements(&mut world).len(), 2);
}

#[test]
fn a_lost_reply_does_not_put_the_announcement_off() {
    let mut world = World::in_state(State::Unavailable);
    world.pass(seconds(5));
    world.no_reply();
    assert_eq!(announcements(&mut world), [seconds(5)]);
}

#[test]
fn what_an_earlier_controller_announced_is_not_announced_again() {
    let mut world = World::restored(State::Unavailable);
    world.pass(seconds(10));
    world.reply(false);
    assert!(announcements(&mut world).is_empty());
}

#[test]
fn unavailable_lasts_for_ever_by_default() {
    let mut world = World::in_state(State::Unavailable);
    world.pass(seconds(1_000_000));
    world.reply(false);
    assert_eq!(world.state(), State::Unavailable);
}

#[test]
fn unavailable_for_longer_than_its_timeout_becomes_unreachable() {
    let mut world = World::with(HealthSettings {
        unavailable_timeout: seconds(600),
        ..SETTINGS
    });
    world.reply(true);
    world.reply(false);
    world.pass(seconds(600));
    world.reply(false);
    assert_eq!(world.state(), State::Unavailable);
    world.pass(seconds(1));
    world.reply(false);
    assert_eq!(world.state(), State::Unreachable);
    assert_eq!(
        world.health.node(NODE).unwrap().reason(),
        Reason::UnavailableTooLong
    );
}

#[test]
fn time_spent_unavailable_before_a_restart_counts_towards_its_timeout() {
    let settings = HealthSettings {
        unavailable_timeout: seconds(3601),
        ..SETTINGS
    };
    let mut world = World::empty(settings);
    let recorded = crate::world::recorded(State::Unavailable);
    world.health.begin(world.now, NODE, true, Some(recorded));
    world.pass(seconds(2));
    world.reply(false);
    assert_eq!(world.state(), State::Unreachable);
}
