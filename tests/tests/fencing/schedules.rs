//! What fails, and what is seen of it.

use std::time::{Duration, Instant};

use pulsepath_tests::egress::{PATIENCE, Stream};
use pulsepath_tests::{Direction, Signal};

use crate::stage::{LEASE, STRICT, Seen, Stage};

/// An answer more or less.
const SOME: u64 = 50;

/// Does something to a stage whose client sends all the time, and says what is seen of the move.
fn provoke(purpose: &str, settings: &str, fail: impl FnOnce(&mut Stage)) -> (Seen, Instant) {
    let mut stage = Stage::start(purpose, settings);
    let stream = Stream::start(stage.scene.external()).unwrap();
    stream.await_answers(SOME, PATIENCE).unwrap();
    let began = Instant::now();
    fail(&mut stage);
    let seen = stage.await_move();
    drop(stream.finish());
    assert!(seen.is_telling(), "{purpose}: somebody was not seen");
    (seen, began)
}

/// A fault of the management network alone, after which the address moves and nobody sees two owners.
fn never_two(purpose: &str, fail: impl FnOnce(&mut Stage)) {
    let (seen, began) = provoke(purpose, STRICT, fail);
    assert_eq!(seen.overlap(), Duration::ZERO);
    // It went on until its lease was over, and no longer.
    let after = seen.old_owner_after(began);
    assert!(after < LEASE + Duration::from_secs(1), "{after:?}");
}

#[test]
fn an_owner_whose_management_link_is_cut_falls_silent_before_the_next_one_begins() {
    never_two("fence-cut", |stage| stage.cut_management());
}

#[test]
fn without_a_fence_the_recorder_sees_two_owners() {
    let settings = "failover.damping.count = 0";
    let (seen, _) = provoke("fence-none", settings, |stage| stage.cut_management());
    assert!(seen.overlap() > Duration::from_millis(300));
}

#[test]
fn an_owner_that_is_not_heard_falls_silent_before_the_next_one_begins() {
    never_two("fence-from", |stage| {
        stage.drop_management(Direction::FromNode);
    });
}

#[test]
fn an_owner_that_does_not_hear_falls_silent_before_the_next_one_begins() {
    never_two("fence-to", |stage| stage.drop_management(Direction::ToNode));
}

#[test]
fn an_owner_without_its_agent_falls_silent_by_itself() {
    never_two("fence-kill", |stage| {
        drop(stage.take_agent());
        stage.cut_management();
    });
}

#[test]
fn an_owner_whose_agent_is_frozen_and_thaws_after_the_move_stays_silent() {
    let mut stage = Stage::start("fence-stop", STRICT);
    let agent = stage.take_agent();
    agent.signal(Signal::SIGSTOP).unwrap();
    let stream = Stream::start(stage.scene.external()).unwrap();
    stage.cut_management();
    stage.scene.await_owner(stage.other()).unwrap();
    agent.signal(Signal::SIGCONT).unwrap();
    let seen = stage.await_move();
    drop(stream.finish());
    assert_eq!(seen.overlap(), Duration::ZERO);
}

#[test]
fn a_frozen_controller_moves_nothing_and_what_it_did_not_renew_comes_back() {
    let mut stage = Stage::start("fence-ctl", STRICT);
    let stream = Stream::start(stage.scene.external()).unwrap();
    let controller = stage.scene.take_controller().unwrap();
    controller.signal(Signal::SIGSTOP).unwrap();
    std::thread::sleep(LEASE + Duration::from_secs(1));
    controller.signal(Signal::SIGCONT).unwrap();
    stream.await_answers(SOME, PATIENCE).unwrap();
    let report = stream.finish();
    println!("silent for {:.1?}", report.longest_gap);
    let expected = Duration::from_millis(500)..LEASE;
    assert!(expected.contains(&report.longest_gap), "{report:?}");
    let (owner, other) = (stage.owner, stage.other());
    assert_eq!(stage.scene.owner().unwrap(), owner);
    let claims = stage.finish();
    assert!(claims.iter().all(|claim| claim.node != other));
}

#[test]
fn without_a_controller_the_owner_is_silent_once_its_lease_is_over_and_comes_back_with_it() {
    let mut stage = Stage::start("fence-gone", STRICT);
    let stream = Stream::start(stage.scene.external()).unwrap();
    stream.await_answers(SOME, PATIENCE).unwrap();
    let owner = stage.owner;
    drop(stage.scene.take_controller().unwrap());
    std::thread::sleep(2 * LEASE);
    stage.scene.start_controller().unwrap();
    stage.scene.await_owner(owner).unwrap();
    stream.await_answers(SOME, PATIENCE).unwrap();
    let report = stream.finish();
    println!("silent for {:.1?}", report.longest_gap);
    assert!(report.longest_gap > LEASE / 2, "{report:?}");
}

#[test]
fn a_controller_that_is_restarted_in_time_costs_nothing() {
    let mut stage = Stage::start("fence-restart", STRICT);
    let stream = Stream::start(stage.scene.external()).unwrap();
    stream.await_answers(SOME, PATIENCE).unwrap();
    drop(stage.scene.take_controller().unwrap());
    stage.scene.start_controller().unwrap();
    stream.await_answers(3_000, PATIENCE).unwrap();
    let report = stream.finish();
    assert!(report.longest_gap < LEASE / 2, "{report:?}");
}
