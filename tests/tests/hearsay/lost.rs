//! The owner is lost: others are asked, and nobody hears it, or nobody answers.

use std::time::{Duration, Instant};

use controller::api::Reason;
use pulsepath_tests::egress::PATIENCE;
use pulsepath_tests::{Process, Signal, eventually};

use crate::scene::{PERIOD, TIMEOUT, World};

/// What a busy machine may take longer; asking itself must not.
pub(crate) const GRACE: Duration = Duration::from_secs(4);

pub(crate) fn cut_owner(world: &World) {
    let began = Instant::now();
    world.scene.cut(world.owner).unwrap();
    let took = world.await_given_up(began);
    println!("given up after {took:.2?}");
    let expected = TIMEOUT - PERIOD..TIMEOUT + PERIOD + GRACE;
    assert!(expected.contains(&took), "{took:?}");
    assert_eq!(world.node().reason, Reason::NoReply);
    world.scene.await_owner(world.other()).unwrap();
}

#[test]
fn an_owner_that_nobody_hears_is_replaced_in_time() {
    let world = World::start("lost", "");
    cut_owner(&world);
    assert!(world.asks("not_heard") > 0.0);
    assert_eq!(world.asks("heard"), 0.0);
}

#[test]
fn those_who_are_asked_and_do_not_answer_hold_nothing_up() {
    let mut world = World::start("lost-mute", "fencing = 'none'");
    let others = [3, 4].map(|index| world.scene.take_agent(index).unwrap());
    let stopped: Vec<Process> = others.into();
    for agent in &stopped {
        agent.signal(Signal::SIGSTOP).unwrap();
    }
    cut_owner(&world);
    // The last one who was asked may have had some time left.
    eventually(PATIENCE, || world.asks("no_answer") > 0.0);
    for agent in &stopped {
        agent.signal(Signal::SIGCONT).unwrap();
    }
}
