//! Controllers end and others take over from the state file.

use std::fs;
use std::time::{Duration, Instant};

use controller::api::State;
use pulsepath_tests::eventually;

use crate::world::{PATIENCE, World};

#[test]
fn a_restarted_controller_goes_on_from_the_recorded_states() {
    let mut world = World::all_available("restart", 2);
    world.kill_agent(2);
    world.await_state("n2", State::Unavailable);
    let before = world.node("n2");
    eventually(PATIENCE, || {
        fs::read_to_string(world.state_file())
            .unwrap()
            .contains("UNAVAILABLE")
    });
    world.controller().kill().unwrap();
    world.start_controller(&world.config());
    eventually(PATIENCE, || world.node("n2").round_trip.is_some());
    let after = world.node("n2");
    assert_eq!(after.state, State::Unavailable);
    assert_eq!(
        (after.since, after.incarnation),
        (before.since, before.incarnation)
    );
    let log = world.controller_log();
    let own = log.rsplit("controller starts").next().unwrap();
    assert!(!own.contains("transition"), "nothing changed:\n{own}");
}

#[test]
fn a_controller_that_is_asked_to_end_does_so_within_a_second_with_its_states_written() {
    let mut world = World::all_available("term", 1);
    eventually(PATIENCE, || fs::remove_file(world.state_file()));
    let asked = Instant::now();
    let status = world.controller().terminate().unwrap();
    assert!(
        asked.elapsed() < Duration::from_secs(1),
        "{:?}",
        asked.elapsed()
    );
    assert!(status.success(), "{status}");
    assert!(
        fs::read_to_string(world.state_file())
            .unwrap()
            .contains("AVAILABLE")
    );
}

#[test]
fn a_watcher_does_not_keep_a_controller_from_ending_within_a_second() {
    let mut world = World::all_available("watched", 1);
    let server = "127.0.0.1:9865".parse().unwrap();
    let netns = world.cluster.node(1).netns();
    let _lines = pulsepath_tests::http::lines(netns, server, "/v1/transitions").unwrap();
    let asked = Instant::now();
    assert!(world.controller().terminate().unwrap().success());
    assert!(
        asked.elapsed() < Duration::from_secs(1),
        "{:?}",
        asked.elapsed()
    );
}

#[test]
fn a_damaged_state_file_is_not_dropped_but_refused() {
    let world = World::new("damaged", 1);
    fs::write(world.state_file(), "{\"version\":1").unwrap();
    let log = world.refused_controller(&world.config());
    assert!(log.contains("is damaged"), "{log}");
    assert_eq!(
        fs::read_to_string(world.state_file()).unwrap(),
        "{\"version\":1"
    );
}

#[test]
fn a_newer_state_file_is_refused() {
    let world = World::new("newer", 1);
    fs::write(world.state_file(), "{\"version\":9,\"nodes\":{}}").unwrap();
    let log = world.refused_controller(&world.config());
    assert!(log.contains("has version 9"), "{log}");
}

#[test]
fn a_state_file_that_cannot_be_written_is_reported_and_probing_goes_on() {
    let mut world = World::new("unwritable", 1);
    let config = world
        .config()
        .replace("controller-state.json", "nowhere/state.json");
    world.start_controller(&config);
    eventually(PATIENCE, || {
        world.metric("pulsepath_state_write_failures_total") >= 1.0
    });
    assert!(world.controller_log().contains("nowhere/state.json"));
    world.await_state("n1", State::Unreachable);
}
