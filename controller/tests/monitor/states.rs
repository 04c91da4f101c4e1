//! What becomes of recorded states, and of states when monitoring is off.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use controller::consumers::Interest;
use controller::health::{HealthSettings, State};
use controller::monitor::{MonitorSettings, Notice};
use futures_util::FutureExt;

use crate::world::{AGENTLESS, Behaviour, SETTINGS, TIMEOUT, World, ips, record};

fn restored(state: State) -> (World, controller::consumers::Consumer) {
    let records = HashMap::from([("n1".to_owned(), record(state, SystemTime::now()))]);
    let mut world = World::with(SETTINGS, records);
    let consumer = world.consumers.register("test");
    consumer.set_interest(Interest::All);
    world.configure(&[("n1", &["10.0.0.1"])]);
    (world, consumer)
}

#[test]
fn a_recorded_state_is_there_before_the_first_reply() {
    let (world, consumer) = restored(State::Unavailable);
    assert_eq!(consumer.state("n1"), State::Unavailable);
    assert!(consumer.changed().now_or_never().is_some());
    let lasted = world
        .now
        .wall
        .duration_since(world.view("n1").since)
        .unwrap();
    assert!(lasted >= Duration::from_secs(3600), "{lasted:?}");
}

#[test]
fn the_same_incarnation_goes_on_from_the_recorded_state() {
    let (mut world, _consumer) = restored(State::Unavailable);
    world.answer_as("10.0.0.1", AGENTLESS);
    world.run(TIMEOUT * 3);
    assert_eq!(world.state("n1"), State::Unavailable);
    assert!(
        !world
            .notices()
            .iter()
            .any(|n| matches!(n, Notice::Transition(_)))
    );
}

#[test]
fn another_incarnation_is_reported_and_begins_from_unknown() {
    let (mut world, _consumer) = restored(State::Unavailable);
    world.answer_as(
        "10.0.0.1",
        Behaviour {
            incarnation: 2,
            ..AGENTLESS
        },
    );
    world.run(TIMEOUT);
    assert_eq!(world.state("n1"), State::Unreachable);
    let reported = Notice::Reincarnated {
        node: "n1".to_owned(),
        from: 1,
        to: 2,
    };
    assert!(world.notices().contains(&reported));
}

#[test]
fn a_timeout_of_zero_probes_nothing_and_shows_every_node_available() {
    let health = HealthSettings {
        timeout: Duration::ZERO,
        ..SETTINGS.health
    };
    let mut world = World::with(MonitorSettings { health, ..SETTINGS }, HashMap::new());
    let consumer = world.consumers.register("test");
    consumer.set_interest(Interest::All);
    world.configure(&[("n1", &["10.0.0.1"]), ("n2", &[])]);
    assert_eq!(world.run(TIMEOUT * 3), ips(&[]));
    assert_eq!(consumer.state("n1"), State::Available);
    assert_eq!(consumer.state("n2"), State::Available);
}
