use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;

use super::*;

fn consumers() -> Consumers {
    Consumers::new(Arc::default(), || {})
}

fn nodes(names: &[&str]) -> Interest {
    Interest::Nodes(names.iter().map(|name| (*name).to_owned()).collect())
}

fn is_told(consumer: &Consumer) -> bool {
    consumer.changed().now_or_never().is_some()
}

#[test]
fn a_node_is_wanted_as_long_as_anyone_is_interested_in_it() {
    let consumers = consumers();
    let first = consumers.register("first");
    let second = consumers.register("second");
    assert!(!consumers.want("n1"));
    first.set_interest(nodes(&["n1"]));
    second.set_interest(nodes(&["n1", "n2"]));
    drop(first);
    assert!(consumers.want("n1"));
    second.set_interest(nodes(&["n2"]));
    assert!(!consumers.want("n1"));
    assert!(consumers.want("n2"));
}

#[test]
fn interest_in_all_includes_every_node() {
    let consumers = consumers();
    let consumer = consumers.register("all");
    consumer.set_interest(Interest::All);
    assert!(consumers.want("whatever"));
    drop(consumer);
    assert!(!consumers.want("whatever"));
}

#[test]
fn only_nodes_whose_first_or_last_interest_it_is_are_affected() {
    let consumers = consumers();
    let first = consumers.register("first");
    let second = consumers.register("second");
    first.set_interest(nodes(&["n1"]));
    assert_eq!(
        consumers.take_affected(),
        Some(Affected::Nodes(["n1".to_owned()].into()))
    );
    second.set_interest(nodes(&["n1", "n2"]));
    assert_eq!(
        consumers.take_affected(),
        Some(Affected::Nodes(["n2".to_owned()].into()))
    );
    first.set_interest(Interest::All);
    assert_eq!(consumers.take_affected(), Some(Affected::All));
    drop(second);
    assert_eq!(consumers.take_affected(), None);
}

#[test]
fn the_monitor_is_woken_when_interest_changes() {
    let woken = Arc::new(AtomicUsize::new(0));
    let count = woken.clone();
    let wake = move || {
        count.fetch_add(1, Ordering::Relaxed);
    };
    let consumers = Consumers::new(Arc::default(), wake);
    let consumer = consumers.register("one");
    assert_eq!(woken.load(Ordering::Relaxed), 0);
    consumer.set_interest(Interest::All);
    assert_eq!(woken.load(Ordering::Relaxed), 1);
}

#[test]
fn a_consumer_is_told_of_its_nodes_and_of_no_other() {
    let consumers = consumers();
    let consumer = consumers.register("one");
    consumer.set_interest(nodes(&["n1"]));
    consumers.tell("n2");
    assert!(!is_told(&consumer));
    consumers.tell("n1");
    assert!(is_told(&consumer));
}

#[test]
fn many_changes_are_told_once() {
    let consumers = consumers();
    let consumer = consumers.register("one");
    consumer.set_interest(Interest::All);
    consumers.tell("n1");
    consumers.tell("n2");
    assert!(is_told(&consumer));
    assert!(!is_told(&consumer));
}

#[test]
fn a_node_that_nobody_configured_is_unknown() {
    assert_eq!(consumers().register("one").state("nobody"), State::Unknown);
}
