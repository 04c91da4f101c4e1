//! The way between the controller and the owner fails, while everybody else hears the owner.

use std::time::{Duration, Instant};

use controller::api::{Reason, State};
use pulsepath_tests::egress::{PATIENCE, Stream};
use pulsepath_tests::eventually;

use crate::scene::{PERIOD, TIMEOUT, World};

/// Nothing moves for several timeouts, and the client loses nothing.
fn nothing_moves(purpose: &str, settings: &str) {
    let world = World::start(purpose, settings);
    let stream = Stream::start(world.scene.external()).unwrap();
    stream.await_answers(50, PATIENCE).unwrap();
    world.cut_path();
    let condition = world.await_path_down();
    std::thread::sleep(2 * TIMEOUT);
    assert!(world.path_down().is_some());
    assert_eq!(world.node().state, State::Available);
    assert_eq!(world.scene.owner().unwrap(), world.owner);
    let witness = format!("n{}", world.other());
    assert!(condition.message.contains("n3") || condition.message.contains(&witness));
    assert!(world.explanation().contains("ControllerPathDown"));
    let gauge = format!(
        "pulsepath_controller_path_down{{node=\"n{}\"}}",
        world.owner
    );
    assert_eq!(world.metric(&gauge), 1.0);
    assert!(world.asks("heard") > 0.0);

    world.mend_path();
    eventually(PATIENCE, || world.path_down().is_none());
    assert_eq!(world.metric(&gauge), 0.0);
    assert_eq!(world.scene.owner().unwrap(), world.owner);
    let report = stream.finish();
    assert_eq!(report.lost(), 0, "{report:?}");
}

#[test]
fn with_a_quorum_of_witnesses_nothing_moves_for_as_long_as_it_lasts() {
    nothing_moves("path-quorum", "fencing = 'quorum'");
}

#[test]
fn without_a_fence_nothing_moves_for_as_long_as_it_lasts() {
    nothing_moves("path-none", "fencing = 'none'");
}

#[test]
fn an_owner_whose_lease_only_the_controller_extends_is_replaced_when_that_is_over() {
    let world = World::start("path-strict", "fencing = 'strict'\nlease = '5s'");
    world.cut_path();
    world.await_path_down();
    world.await_given_up(Instant::now());
    assert_eq!(world.node().reason, Reason::LeaseOver);
    assert_eq!(world.path_down(), None);
    world.scene.await_owner(world.other()).unwrap();
}

#[test]
fn an_owner_that_is_lost_while_only_others_hear_it_is_replaced() {
    let world = World::start("path-then-cut", "fencing = 'none'");
    world.cut_path();
    world.await_path_down();
    let began = Instant::now();
    world.scene.cut(world.owner).unwrap();
    let took = world.await_given_up(began);
    // What others said is never taken for newer than it is, but may be older than it was.
    let expected = TIMEOUT / 2..TIMEOUT + 2 * PERIOD + Duration::from_secs(4);
    assert!(expected.contains(&took), "{took:?}");
    world.scene.await_owner(world.other()).unwrap();
}
