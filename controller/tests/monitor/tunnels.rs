//! Nodes that nobody hears, while others receive packets from their tunnels.

use std::time::Duration;

use controller::api::Transition;
use controller::consumers::Consumer;
use controller::health::{Reason, State};
use controller::monitor::Notice;

use crate::hearsay::{conditions, extend_lease_of, healthy};
use crate::world::{HEALTHY, PERIOD, TIMEOUT, World};

/// Four nodes, of which n1 answers nobody any more, but sends through its tunnels.
fn only_tunnels() -> (World, Consumer) {
    let (mut world, consumer) = healthy();
    world.busy_tunnels.insert("n1".to_owned());
    world.cut("10.0.0.1");
    (world, consumer)
}

/// What the only transition says, and how long n1 had been silent.
fn given_up(world: &mut World) -> (Transition, Duration) {
    let notices = world.notices().into_iter();
    let transitions: Vec<_> = notices
        .filter_map(|notice| match notice {
            Notice::Transition(transition) => Some(transition),
            _ => None,
        })
        .collect();
    let [transition] = &transitions[..] else {
        panic!("{transitions:?}")
    };
    assert_eq!(transition.to, State::Unreachable);
    let silence = Duration::from_secs_f64(transition.silence_ms / 1e3);
    (transition.clone(), silence)
}

#[test]
fn a_node_whose_tunnels_are_busy_is_given_up_one_timeout_later() {
    let (mut world, _consumer) = only_tunnels();
    world.run(TIMEOUT * 2 - PERIOD);
    assert_eq!(world.state("n1"), State::Available);
    world.run(TIMEOUT);
    let (transition, silence) = given_up(&mut world);
    assert_eq!(transition.reason, Reason::TunnelsOnly);
    assert!(
        silence > TIMEOUT * 2 && silence <= TIMEOUT * 2 + PERIOD,
        "{silence:?}"
    );
    let packet = transition.last_tunnel_packet.expect("one was received").0;
    let ago = transition.at.0.duration_since(packet).unwrap();
    assert!(ago <= PERIOD, "{ago:?}");
}

#[test]
fn it_is_told_that_only_its_tunnels_say_that_it_works_and_until_when_that_is_enough() {
    let (mut world, _consumer) = only_tunnels();
    world.run(TIMEOUT + PERIOD * 2);
    let notices = world.notices();
    let [
        Notice::OnlyTunnels {
            node,
            silence,
            left,
            ..
        },
    ] = &notices[..]
    else {
        panic!("{notices:?}")
    };
    assert_eq!(node, "n1");
    assert_eq!(*silence + *left, TIMEOUT * 2);
    let conditions = conditions(&world, "n1");
    let [(name, message)] = &conditions[..] else {
        panic!("{conditions:?}")
    };
    assert_eq!(name, "TunnelsOnly");
    assert!(message.contains("for 0."), "{message}");
    let sightings = world.board.sightings();
    let seen = sightings.iter().find(|it| it.node == "n1").unwrap();
    assert!(seen.only_others, "nothing new is placed there");
}

#[test]
fn why_it_took_longer_is_said_for_as_long_as_nobody_hears_the_node() {
    let (mut world, _consumer) = only_tunnels();
    world.run(TIMEOUT * 4);
    let unreachable = conditions(&world, "n1");
    assert!(
        unreachable[0].1.contains("before it was given up"),
        "{unreachable:?}"
    );
    world.answer_as("10.0.0.1", HEALTHY);
    world.run(PERIOD * 2);
    assert_eq!(conditions(&world, "n1"), []);
}

#[test]
fn a_node_whose_tunnels_were_busy_until_it_was_cut_is_given_up_as_soon_as_any() {
    let (mut world, _consumer) = only_tunnels();
    // By the time that anybody is asked, the last packet is as old as the silence.
    world.run(TIMEOUT / 2 - PERIOD);
    world.busy_tunnels.clear();
    world.run(TIMEOUT * 2);
    let (transition, silence) = given_up(&mut world);
    assert_eq!(transition.reason, Reason::NoReply);
    assert_eq!(transition.last_tunnel_packet, None);
    assert!(silence <= TIMEOUT + PERIOD, "{silence:?}");
}

#[test]
fn a_node_whose_tunnels_fall_silent_is_given_up_a_timeout_after_their_last_packet() {
    let (mut world, _consumer) = only_tunnels();
    world.run(TIMEOUT - PERIOD);
    world.busy_tunnels.clear();
    world.run(TIMEOUT * 2);
    let (transition, silence) = given_up(&mut world);
    assert_eq!(transition.reason, Reason::TunnelsOnly);
    assert!(
        silence > TIMEOUT + PERIOD && silence <= TIMEOUT * 2,
        "{silence:?}"
    );
}

#[test]
fn a_node_that_somebody_hears_again_needs_no_tunnels() {
    let (mut world, _consumer) = only_tunnels();
    world.run(TIMEOUT + PERIOD * 2);
    world.heard_by_others.insert("n1".to_owned(), true);
    world.run(TIMEOUT * 5);
    assert_eq!(world.state("n1"), State::Available);
    let conditions = conditions(&world, "n1");
    assert_eq!(conditions[0].0, "ControllerPathDown");
    assert_eq!(conditions.len(), 1);
}

#[test]
fn a_node_whose_lease_has_run_out_is_given_up_however_busy_its_tunnels_are() {
    let (mut world, _consumer) = only_tunnels();
    let lease = TIMEOUT + 2 * PERIOD;
    extend_lease_of(&mut world, "n1", lease);
    world.run(TIMEOUT * 2);
    let (transition, silence) = given_up(&mut world);
    assert_eq!(transition.reason, Reason::LeaseOver);
    assert!(silence > lease && silence <= lease + PERIOD, "{silence:?}");
}
