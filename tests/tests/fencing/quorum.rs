//! Witnesses that extend leases: what goes on without a controller, and what does not move without them.

use std::time::Duration;

use pulsepath_tests::LinkState;
use pulsepath_tests::egress::{PATIENCE, Stream};

use crate::stage::Stage;

/// The lease is 1.4 s then.
const QUORUM: &str = "fencing = 'quorum'\nfailover.damping.count = 0";
/// Longer than any lease: without anybody who extends it, the owner would be silent.
const GONE: Duration = Duration::from_secs(20);
/// Silence of the owner for longer than that is no matter of a busy machine.
const SILENT: Duration = Duration::from_secs(1);
/// A node that is neither a candidate nor has the controller.
const BYSTANDER: u8 = 3;

/// A stage where every candidate has witnesses.
fn stage(purpose: &str, settings: &str) -> Stage {
    let stage = Stage::start(purpose, &format!("{QUORUM}\n{settings}"));
    stage.scene.await_witnesses().unwrap();
    stage
}

/// The owner's management link is cut; the address moves, and nobody sees two owners.
fn moves_when_cut(stage: Stage) {
    let stream = Stream::start(stage.scene.external()).unwrap();
    stream.await_answers(50, PATIENCE).unwrap();
    stage.cut_management();
    let seen = stage.await_move();
    drop(stream.finish());
    assert!(seen.is_telling(), "somebody was not seen");
    assert_eq!(seen.overlap(), Duration::ZERO);
}

#[test]
fn an_owner_that_is_cut_off_falls_silent_before_the_next_one_begins() {
    moves_when_cut(stage("quorum-cut", ""));
}

#[test]
fn a_witness_that_is_down_all_the_time_holds_no_move_up() {
    let mut stage = stage("quorum-one", "");
    drop(stage.scene.take_agent(BYSTANDER).unwrap());
    moves_when_cut(stage);
}

#[test]
fn without_any_controller_egress_goes_on() {
    let mut stage = stage("quorum-gone", "");
    let other = stage.other();
    let stream = Stream::start(stage.scene.external()).unwrap();
    stream.await_answers(50, PATIENCE).unwrap();
    drop(stage.scene.take_controller().unwrap());
    std::thread::sleep(GONE);
    let report = stream.finish();
    println!("{} of {} lost in {GONE:?}", report.lost(), report.sent);
    assert!(report.longest_gap < SILENT, "{report:?}");
    assert!(
        stage.finish().iter().all(|claim| claim.node != other),
        "nothing moved"
    );
}

#[test]
fn agents_without_a_controller_go_on_after_a_restart_too() {
    let mut stage = stage("quorum-boot", "");
    let stream = Stream::start(stage.scene.external()).unwrap();
    drop(stage.scene.take_controller().unwrap());
    for index in stage.scene.indices() {
        stage.scene.restart_agent(index).unwrap();
    }
    let began = stream.answered();
    std::thread::sleep(GONE / 4);
    stream.await_answers(began + 1_000, PATIENCE).unwrap();
    let report = stream.finish();
    println!("silent for {:.1?}", report.longest_gap);
    assert!(report.longest_gap < SILENT, "{report:?}");
}

#[test]
fn a_controller_in_the_smaller_part_of_a_split_cluster_moves_nothing_and_egress_goes_on() {
    let stage = stage("quorum-split", "failover.max_unreachable = 1.0");
    let (owner, other) = (stage.owner, stage.other());
    let stream = Stream::start(stage.scene.external()).unwrap();
    stream.await_answers(50, PATIENCE).unwrap();
    let controller = stage.scene.setup().controller;
    stage
        .scene
        .cluster()
        .set_link(controller, LinkState::Down)
        .unwrap();
    stage.scene.await_held("NoQuorum").unwrap();
    std::thread::sleep(GONE / 4);
    assert_eq!(stage.scene.owner().unwrap(), owner);
    let report = stream.finish();
    assert!(report.longest_gap < SILENT, "{report:?}");
    assert!(stage.finish().iter().all(|claim| claim.node != other));
}

#[test]
fn with_every_agent_dead_the_leases_stay_and_nothing_moves() {
    let mut stage = stage("quorum-dead", "");
    let (owner, other) = (stage.owner, stage.other());
    let stream = Stream::start(stage.scene.external()).unwrap();
    stream.await_answers(50, PATIENCE).unwrap();
    for index in stage.scene.indices() {
        drop(stage.scene.take_agent(index).unwrap());
    }
    std::thread::sleep(GONE / 4);
    assert_eq!(stage.scene.owner().unwrap(), owner);
    let report = stream.finish();
    assert!(report.longest_gap < SILENT, "{report:?}");
    assert!(stage.finish().iter().all(|claim| claim.node != other));
}
