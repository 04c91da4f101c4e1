//! What others say of a node that the controller does not hear. The timeout is 60 s.

use std::time::Duration;

use controller::health::State::{self, Available, Unavailable, Unknown, Unreachable};
use controller::health::{HealthSettings, Output, Reason};

use crate::world::{NODE, SETTINGS, World, seconds};

/// A round begins after each of these seconds, without a reply.
fn silent_until(world: &mut World, from: u64, to: u64) {
    for _ in from..to {
        world.pass(seconds(1));
        world.no_reply();
    }
}

fn paths(world: &mut World) -> Vec<Output> {
    let is_path =
        |output: &Output| matches!(output, Output::PathDown { .. } | Output::PathBack { .. });
    world.outputs().into_iter().filter(is_path).collect()
}

/// AVAILABLE, silent for 61 s, and heard by others after 40 s.
fn path_down() -> World {
    let mut world = World::in_state(Available);
    silent_until(&mut world, 0, 40);
    world.heard_by_others(Duration::ZERO);
    silent_until(&mut world, 40, 61);
    world
}

#[test]
fn others_are_asked_from_half_the_timeout_on_at_every_round() {
    let mut world = World::in_state(Available);
    silent_until(&mut world, 0, 29);
    assert!(world.doubts().is_empty());
    silent_until(&mut world, 29, 32);
    assert_eq!(world.doubts(), [30, 31, 32].map(seconds));
}

#[test]
fn a_node_that_answers_again_is_not_asked_about_any_more() {
    let mut world = World::in_state(Available);
    silent_until(&mut world, 0, 40);
    world.reply(true);
    world.doubts();
    silent_until(&mut world, 0, 29);
    assert!(world.doubts().is_empty());
}

#[test]
fn a_node_in_any_state_but_unreachable_is_asked_about() {
    for state in State::ALL {
        let mut world = World::in_state(state);
        silent_until(&mut world, 0, 30);
        let asked = !world.doubts().is_empty();
        assert_eq!(asked, state != Unreachable, "{state}");
    }
}

#[test]
fn while_nobody_answers_the_controllers_own_silence_decides() {
    let mut world = World::in_state(Available);
    silent_until(&mut world, 0, 60);
    assert_eq!(world.state(), Available);
    silent_until(&mut world, 60, 61);
    assert_eq!(
        (world.state(), world.reason()),
        (Unreachable, Reason::NoReply)
    );
}

#[test]
fn a_node_that_others_hear_keeps_whatever_state_it_has() {
    for state in [Unknown, Available, Unavailable] {
        let mut world = World::in_state(state);
        for _ in 0..100 {
            silent_until(&mut world, 0, 30);
            world.heard_by_others(seconds(1));
        }
        assert_eq!(world.state(), state);
    }
}

#[test]
fn it_is_told_once_that_the_way_to_the_controller_fails_and_once_that_it_works_again() {
    let mut world = path_down();
    let silence = seconds(61);
    assert_eq!(
        paths(&mut world),
        [Output::PathDown {
            node: NODE,
            silence
        }]
    );
    assert!(world.health.node(NODE).unwrap().is_path_down());
    world.heard_by_others(Duration::ZERO);
    silent_until(&mut world, 61, 80);
    assert_eq!(paths(&mut world), []);
    world.reply(true);
    world.reply(true);
    let silence = seconds(80);
    assert_eq!(
        paths(&mut world),
        [Output::PathBack {
            node: NODE,
            silence
        }]
    );
    assert!(!world.health.node(NODE).unwrap().is_path_down());
}

#[test]
fn nothing_is_told_of_the_way_to_a_node_that_is_heard_again_in_time() {
    let mut world = World::in_state(Available);
    silent_until(&mut world, 0, 40);
    world.heard_by_others(Duration::ZERO);
    silent_until(&mut world, 40, 60);
    world.reply(true);
    assert_eq!(paths(&mut world), []);
}

#[test]
fn others_are_asked_again_when_they_have_not_heard_it_for_half_the_timeout() {
    let mut world = path_down();
    world.doubts();
    silent_until(&mut world, 61, 69);
    assert!(world.doubts().is_empty());
    silent_until(&mut world, 69, 71);
    assert_eq!(world.doubts(), [30, 31].map(seconds));
}

#[test]
fn a_node_that_nobody_hears_any_more_is_unreachable_after_the_timeout() {
    let mut world = path_down();
    silent_until(&mut world, 61, 100);
    assert_eq!(world.state(), Available);
    silent_until(&mut world, 100, 101);
    assert_eq!(
        (world.state(), world.reason()),
        (Unreachable, Reason::NoReply)
    );
    assert!(!world.health.node(NODE).unwrap().is_path_down());
}

#[test]
fn what_others_heard_before_the_last_reply_changes_nothing() {
    let mut world = World::in_state(Available);
    world.pass(seconds(10));
    world.reply(true);
    world.heard_by_others(seconds(5));
    silent_until(&mut world, 0, 61);
    assert_eq!(world.state(), Unreachable);
}

#[test]
fn an_answer_that_comes_too_late_does_not_bring_a_node_back() {
    let mut world = World::in_state(Unreachable);
    world.heard_by_others(Duration::ZERO);
    world.no_reply();
    assert_eq!(world.state(), Unreachable);
}

#[test]
fn a_node_whose_lease_is_over_is_replaced_however_well_it_is_heard() {
    let mut world = World::in_state(Available);
    silent_until(&mut world, 0, 40);
    world.heard_without_lease(Duration::ZERO);
    silent_until(&mut world, 40, 60);
    assert_eq!(world.state(), Available, "not before the timeout");
    silent_until(&mut world, 60, 61);
    assert_eq!(
        (world.state(), world.reason()),
        (Unreachable, Reason::LeaseOver)
    );
}

#[test]
fn a_lease_that_runs_out_ends_what_others_said_before() {
    let mut world = path_down();
    world.heard_without_lease(Duration::ZERO);
    world.no_reply();
    assert_eq!(
        (world.state(), world.reason()),
        (Unreachable, Reason::LeaseOver)
    );
}

#[test]
fn the_newest_that_was_heard_counts_in_whatever_order_it_is_said() {
    let mut world = path_down();
    world.heard_without_lease(seconds(1));
    world.heard_by_others(seconds(2));
    world.no_reply();
    assert_eq!(world.state(), Unreachable);

    let mut world = path_down();
    world.heard_by_others(seconds(1));
    world.heard_without_lease(seconds(2));
    world.no_reply();
    assert_eq!(world.state(), Available);
}

#[test]
fn a_node_without_a_lease_that_answers_the_controller_is_none_of_its_business() {
    let mut world = World::in_state(Available);
    silent_until(&mut world, 0, 40);
    world.heard_without_lease(Duration::ZERO);
    world.reply(true);
    silent_until(&mut world, 0, 60);
    assert_eq!(world.state(), Available);
    silent_until(&mut world, 60, 61);
    assert_eq!(world.reason(), Reason::NoReply);
}

#[test]
fn time_in_which_the_controller_did_not_probe_is_no_time_in_which_others_were_not_asked() {
    let mut world = path_down();
    world.pass(seconds(1000));
    world.excused_round(seconds(999));
    assert_eq!(world.state(), Available);
    // The answer to a question from before that time is read at last.
    world.heard_by_others(seconds(1005));
    world.no_reply();
    assert_eq!(world.state(), Available);
}

#[test]
fn unavailable_for_too_long_is_too_long_whoever_hears_the_node() {
    let mut world = World::with(HealthSettings {
        unavailable_timeout: seconds(100),
        ..SETTINGS
    });
    world.reply(true);
    world.reply(false);
    for _ in 0..4 {
        silent_until(&mut world, 0, 30);
        world.heard_by_others(Duration::ZERO);
    }
    assert_eq!(world.reason(), Reason::UnavailableTooLong);
}

#[test]
fn packets_from_its_tunnels_win_a_silent_node_one_more_timeout_at_most() {
    let mut world = World::in_state(Available);
    for _ in 0..120 {
        silent_until(&mut world, 0, 1);
        world.tunnel_packet(Duration::ZERO);
    }
    assert_eq!(world.state(), Available);
    silent_until(&mut world, 120, 121);
    assert_eq!(
        (world.state(), world.reason()),
        (Unreachable, Reason::TunnelsOnly)
    );
}

#[test]
fn packets_that_came_before_half_the_timeout_win_nothing() {
    let mut world = World::in_state(Available);
    silent_until(&mut world, 0, 60);
    world.tunnel_packet(seconds(30));
    silent_until(&mut world, 60, 61);
    assert_eq!(
        (world.state(), world.reason()),
        (Unreachable, Reason::NoReply)
    );
}

#[test]
fn packets_win_no_more_than_a_timeout_since_the_last_of_them() {
    let mut world = World::in_state(Available);
    silent_until(&mut world, 0, 50);
    world.tunnel_packet(seconds(10));
    world.tunnel_packet(seconds(15));
    silent_until(&mut world, 50, 100);
    assert_eq!(world.state(), Available);
    silent_until(&mut world, 100, 101);
    assert_eq!(world.reason(), Reason::TunnelsOnly);
}

#[test]
fn packets_do_not_bring_a_node_back() {
    let mut world = World::in_state(Unreachable);
    world.tunnel_packet(Duration::ZERO);
    world.no_reply();
    assert_eq!(
        (world.state(), world.reason()),
        (Unreachable, Reason::NoReply)
    );
}

#[test]
fn packets_do_not_help_a_node_whose_lease_is_said_to_be_over() {
    let mut world = World::in_state(Available);
    silent_until(&mut world, 0, 60);
    world.heard_without_lease(Duration::ZERO);
    world.tunnel_packet(Duration::ZERO);
    silent_until(&mut world, 60, 61);
    assert_eq!(world.reason(), Reason::LeaseOver);
}

#[test]
fn time_in_which_the_controller_did_not_probe_counts_against_no_packet() {
    let mut world = World::in_state(Available);
    silent_until(&mut world, 0, 50);
    world.tunnel_packet(Duration::ZERO);
    world.pass(seconds(1000));
    world.excused_round(seconds(1000));
    silent_until(&mut world, 50, 110);
    assert_eq!(world.state(), Available);
    silent_until(&mut world, 110, 111);
    assert_eq!(world.state(), Unreachable);
}
