//! Whose leases the probes extend.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use controller::tenure::Tenure;
use probe_user::session::{Renewal, Right};

use crate::world::{Behaviour, HEALTHY, PERIOD, ROUND_TRIP, World};

fn renew(world: &mut World, nodes: &[&str]) -> BTreeMap<String, Instant> {
    renew_within(world, nodes, Tenure::endless())
}

fn renew_within(world: &mut World, nodes: &[&str], tenure: Tenure) -> BTreeMap<String, Instant> {
    let renewal = Renewal {
        right: Right::Controller,
        floor: 1,
        time: Duration::from_secs(1),
        since: world.now.instant - Duration::from_secs(60),
    };
    let renewals = nodes.iter().map(|&node| (node.to_owned(), renewal));
    world.monitor.renew(renewals.collect(), tenure)
}

/// `n1`, which has answered for a while, with its lease extended. Its first answer is the last one
/// before `until`.
fn renewed_node() -> (World, controller::consumers::Consumer) {
    let (mut world, consumer) = World::watching(&[("n1", &["10.0.0.1"])]);
    world.answer_as("10.0.0.1", HEALTHY);
    world.run(PERIOD);
    assert!(renew(&mut world, &["n1"]).is_empty());
    world.run(4 * PERIOD);
    (world, consumer)
}

#[test]
fn the_newest_reply_that_was_echoed_is_told_when_a_renewal_changes() {
    let (mut world, _consumer) = renewed_node();
    let end = world.now.instant;
    let echoed = renew(&mut world, &["n1"])["n1"];
    // The reply of the last round was not echoed yet.
    assert!(echoed < end - ROUND_TRIP && echoed + 2 * PERIOD > end - ROUND_TRIP);
}

#[test]
fn a_silent_node_is_not_renewed_any_further() {
    let (mut world, _consumer) = renewed_node();
    world.cut("10.0.0.1");
    let cut = world.now.instant;
    world.run(10 * PERIOD);
    assert!(renew(&mut world, &[])["n1"] <= cut + ROUND_TRIP);
}

#[test]
fn what_was_echoed_to_a_node_is_known_when_the_node_is_gone() {
    let (mut world, _consumer) = renewed_node();
    world.configure(&[]);
    assert!(renew(&mut world, &[]).contains_key("n1"));
}

#[test]
fn what_was_echoed_to_a_node_is_known_when_its_address_goes_to_another() {
    let (mut world, _consumer) = renewed_node();
    world.configure(&[("n1", &["10.0.0.2"]), ("n2", &["10.0.0.1"])]);
    assert!(renew(&mut world, &[]).contains_key("n1"));
}

#[test]
fn a_node_that_comes_later_is_renewed_from_the_beginning() {
    let (mut world, _consumer) = World::watching(&[]);
    renew(&mut world, &["n1"]);
    world.configure(&[("n1", &["10.0.0.1"])]);
    world.answer_as("10.0.0.1", HEALTHY);
    world.run(4 * PERIOD);
    assert!(renew(&mut world, &["n1"]).contains_key("n1"));
}

#[test]
fn no_lease_is_extended_by_what_comes_when_the_term_is_over() {
    let (mut world, _consumer) = renewed_node();
    let end = world.now.instant + PERIOD;
    renew_within(&mut world, &["n1"], Tenure::until(end));
    world.run(10 * PERIOD);
    assert!(renew(&mut world, &[])["n1"] < end);
}

#[test]
fn a_term_that_is_renewed_goes_on() {
    let (mut world, _consumer) = renewed_node();
    let end = world.now.instant + PERIOD;
    let tenure = Tenure::until(end);
    renew_within(&mut world, &["n1"], tenure.clone());
    tenure.set_end(end + 100 * PERIOD);
    world.run(10 * PERIOD);
    assert!(renew(&mut world, &[])["n1"] > end);
}

#[test]
fn nodes_that_nobody_named_are_not_renewed() {
    let (mut world, _consumer) = renewed_node();
    renew(&mut world, &[]);
    world.run(4 * PERIOD);
    assert!(renew(&mut world, &[]).is_empty());
}

#[test]
fn what_is_left_of_a_lease_is_shown_until_it_is_over() {
    let (mut world, _consumer) = World::watching(&[("n1", &["10.0.0.1"])]);
    let holder = Behaviour {
        lease_ms: 700,
        ..HEALTHY
    };
    world.answer_as("10.0.0.1", holder);
    world.run(2 * PERIOD);
    let left = world.view("n1").lease_left(world.now.instant).unwrap();
    let whole = Duration::from_millis(700);
    assert!(
        left <= whole + ROUND_TRIP && left + PERIOD >= whole,
        "{left:?}"
    );
    world.cut("10.0.0.1");
    world.run(left);
    assert_eq!(world.view("n1").lease_left(world.now.instant), None);
}
