//! Nodes are added, removed, readdressed and relabelled while the monitor runs.

use controller::consumers::Interest;
use controller::health::{Reason, State};
use controller::monitor::Notice;

use crate::world::{AGENTLESS, HEALTHY, TIMEOUT, World, ips};

/// One node that is UNAVAILABLE: a state that no reply alone would give it again.
fn unavailable_node() -> (World, controller::consumers::Consumer) {
    let (mut world, consumer) = World::watching(&[("n1", &["10.0.0.1"])]);
    world.answer_as("10.0.0.1", HEALTHY);
    world.run(TIMEOUT);
    world.answer_as("10.0.0.1", AGENTLESS);
    world.answer_as("10.0.0.2", AGENTLESS);
    world.run(TIMEOUT);
    assert_eq!(world.state("n1"), State::Unavailable);
    world.notices();
    (world, consumer)
}

#[test]
fn a_changed_address_keeps_the_state_and_the_new_one_is_probed() {
    let (mut world, _consumer) = unavailable_node();
    world.configure(&[("n1", &["10.0.0.2"])]);
    assert_eq!(world.run(TIMEOUT * 3), ips(&["10.0.0.2"]));
    assert_eq!(world.state("n1"), State::Unavailable);
    assert_eq!(world.notices(), []);
}

#[test]
fn nodes_that_exchange_their_addresses_keep_their_states() {
    let (mut world, _consumer) = unavailable_node();
    world.configure(&[("n1", &["10.0.0.1"]), ("n2", &["10.0.0.2"])]);
    world.answer_as("10.0.0.2", HEALTHY);
    world.run(TIMEOUT);
    assert_eq!(world.state("n2"), State::Available);
    world.answer_as("10.0.0.1", HEALTHY);
    world.answer_as("10.0.0.2", AGENTLESS);
    world.configure(&[("n1", &["10.0.0.2"]), ("n2", &["10.0.0.1"])]);
    world.run(TIMEOUT * 3);
    assert_eq!(world.state("n1"), State::Unavailable);
    assert_eq!(world.state("n2"), State::Available);
    let problems = world
        .notices()
        .into_iter()
        .filter(|n| matches!(n, Notice::NotProbed { .. }));
    assert_eq!(problems.count(), 0);
}

#[test]
fn a_new_label_changes_nothing_else() {
    let (mut world, _consumer) = unavailable_node();
    let mut spec = world.spec("n1", &["10.0.0.1"]);
    spec.labels.insert("zone".to_owned(), "a".to_owned());
    world.apply(vec![spec]);
    world.run(TIMEOUT);
    assert_eq!(world.state("n1"), State::Unavailable);
    assert_eq!(world.view("n1").labels["zone"], "a");
}

#[test]
fn a_deleted_node_is_unknown_and_no_longer_probed() {
    let (mut world, consumer) = unavailable_node();
    world.configure(&[]);
    assert_eq!(world.run(TIMEOUT), ips(&[]));
    assert_eq!(consumer.state("n1"), State::Unknown);
    let notices = world.notices();
    assert!(
        matches!(&notices[..], [Notice::Transition(t)]
            if t.to == State::Unknown && t.reason == Reason::NotMonitored),
        "{notices:?}"
    );
}

#[test]
fn a_new_node_inherits_nothing_from_a_deleted_one() {
    let (mut world, _consumer) = unavailable_node();
    world.configure(&[("n2", &["10.0.0.1"])]);
    assert_eq!(world.state("n2"), State::Unknown);
    world.run(TIMEOUT);
    assert_eq!(
        world.state("n2"),
        State::Unreachable,
        "never seen with its agent"
    );
}

#[test]
fn a_node_without_addresses_is_unreachable_until_it_has_one_that_answers() {
    let (mut world, _consumer) = World::watching(&[("n1", &[])]);
    assert_eq!(world.state("n1"), State::Unreachable);
    assert_eq!(world.view("n1").reason, Reason::NoAddress);
    world.configure(&[("n1", &["10.0.0.1"])]);
    world.answer_as("10.0.0.1", HEALTHY);
    world.run(TIMEOUT);
    assert_eq!(world.state("n1"), State::Available);
}

#[test]
fn a_node_that_loses_its_addresses_is_unreachable_and_no_longer_probed() {
    let (mut world, _consumer) = unavailable_node();
    world.configure(&[("n1", &[])]);
    assert_eq!(world.state("n1"), State::Unreachable);
    assert_eq!(world.run(TIMEOUT), ips(&[]));
}

#[test]
fn an_address_that_cannot_be_probed_is_reported_and_the_state_kept() {
    let (mut world, _consumer) = unavailable_node();
    world.configure(&[("n1", &["224.0.0.1"])]);
    let notices = world.notices();
    assert!(
        matches!(&notices[..], [Notice::NotProbed { .. }]),
        "{notices:?}"
    );
    assert!(world.view("n1").not_probed.unwrap().contains("224.0.0.1"));
    assert_eq!(world.state("n1"), State::Unavailable);
}

#[test]
fn every_address_is_probed_and_one_that_answers_is_enough() {
    let (mut world, _consumer) = World::watching(&[("n1", &["10.0.0.1", "fd00::1"])]);
    world.answer_as("fd00::1", HEALTHY);
    assert_eq!(world.run(TIMEOUT * 5), ips(&["10.0.0.1", "fd00::1"]));
    assert_eq!(world.state("n1"), State::Available);
    world.answer_as("10.0.0.1", HEALTHY);
    world.cut("fd00::1");
    world.run(TIMEOUT * 5);
    assert_eq!(world.state("n1"), State::Available);
    world.cut("10.0.0.1");
    world.run(TIMEOUT * 2);
    assert_eq!(world.state("n1"), State::Unreachable);
}

#[test]
fn interest_in_all_includes_nodes_added_later() {
    let mut world = World::new();
    let consumer = world.consumers.register("test");
    consumer.set_interest(Interest::All);
    world.answer_as("10.0.0.1", HEALTHY);
    world.run(TIMEOUT);
    world.configure(&[("n1", &["10.0.0.1"])]);
    world.run(TIMEOUT);
    assert_eq!(consumer.state("n1"), State::Available);
}
