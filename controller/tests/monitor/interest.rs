//! Only nodes that interest someone are probed.

use controller::consumers::Interest;
use controller::health::State;
use futures_util::FutureExt;

use crate::world::{HEALTHY, TIMEOUT, World, ip, ips};

fn named(names: &[&str]) -> Interest {
    Interest::Nodes(names.iter().map(|name| (*name).to_owned()).collect())
}

fn two_healthy_nodes() -> World {
    let mut world = World::new();
    world.configure(&[("n1", &["10.0.0.1"]), ("n2", &["10.0.0.2"])]);
    world.answer_as("10.0.0.1", HEALTHY);
    world.answer_as("10.0.0.2", HEALTHY);
    world
}

#[test]
fn nodes_that_interest_nobody_are_not_probed_and_unknown() {
    let mut world = two_healthy_nodes();
    assert_eq!(world.run(TIMEOUT), ips(&[]));
    assert_eq!(world.state("n1"), State::Unknown);
}

#[test]
fn only_the_nodes_of_interest_are_probed() {
    let mut world = two_healthy_nodes();
    let consumer = world.consumers.register("test");
    consumer.set_interest(named(&["n2"]));
    assert_eq!(world.run(TIMEOUT), ips(&["10.0.0.2"]));
    assert_eq!(consumer.state("n1"), State::Unknown);
    assert_eq!(consumer.state("n2"), State::Available);
}

#[test]
fn a_node_in_which_the_last_interest_ends_is_unknown_and_no_longer_probed() {
    let mut world = two_healthy_nodes();
    let first = world.consumers.register("first");
    let second = world.consumers.register("second");
    first.set_interest(named(&["n1"]));
    second.set_interest(named(&["n1"]));
    world.run(TIMEOUT);
    drop(first);
    assert_eq!(world.run(TIMEOUT), ips(&["10.0.0.1"]));
    assert_eq!(second.state("n1"), State::Available);
    second.set_interest(named(&[]));
    assert_eq!(world.run(TIMEOUT), ips(&[]));
    assert_eq!(second.state("n1"), State::Unknown);
}

#[test]
fn a_node_that_is_configured_after_the_interest_in_it_is_probed() {
    let mut world = World::new();
    let consumer = world.consumers.register("test");
    consumer.set_interest(named(&["n1"]));
    world.run(TIMEOUT);
    world.configure(&[("n1", &["10.0.0.1"])]);
    assert!(world.run(TIMEOUT).contains(&ip("10.0.0.1")));
}

#[test]
fn a_consumer_is_told_that_a_node_changed_and_then_sees_its_state() {
    let mut world = two_healthy_nodes();
    let consumer = world.consumers.register("test");
    consumer.set_interest(named(&["n1"]));
    world.run(TIMEOUT);
    assert!(consumer.changed().now_or_never().is_some());
    assert_eq!(consumer.state("n1"), State::Available);
    world.run(TIMEOUT);
    assert!(
        consumer.changed().now_or_never().is_none(),
        "nothing changed since"
    );
    world.cut("10.0.0.1");
    world.run(TIMEOUT * 2);
    assert!(consumer.changed().now_or_never().is_some());
    assert_eq!(consumer.state("n1"), State::Unreachable);
}
