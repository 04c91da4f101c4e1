//! Questions, and when they are answered.

use std::time::Duration;

use super::world::{MS, PERIOD, World, host};
use crate::channel::{AskReport, Question};
use crate::witness::AskError;

const WAIT: Duration = Duration::from_millis(500);

fn answers(world: &mut World) -> Vec<AskReport> {
    std::iter::from_fn(|| world.witness.poll_answer())
        .map(|it| it.1)
        .collect()
}

fn ask(world: &mut World, id: u8) {
    let question = world.question(id, WAIT);
    world.witness.ask(world.now, &question).unwrap();
}

#[test]
fn a_node_that_was_just_heard_is_answered_for_at_once() {
    let mut world = World::new();
    world.watch(vec![world.watched(1, 5)]);
    world.round();
    ask(&mut world, 1);
    let answers = answers(&mut world);
    let heard = &answers[0].heard;
    assert!(heard.heard_ago.is_some_and(|ago| ago <= PERIOD));
    assert_eq!(heard.floor, 5, "a question stores no floor");
}

#[test]
fn a_node_that_was_heard_too_long_ago_is_waited_for() {
    let mut world = World::new();
    world.watch(vec![world.watched(1, 0)]);
    world.round();
    world.advance(PERIOD * 2);
    ask(&mut world, 1);
    assert_eq!(answers(&mut world), []);
    world.round();
    assert_eq!(answers(&mut world).len(), 1);
}

#[test]
fn a_node_that_is_not_watched_is_probed_at_once_and_let_go_of_after_the_answer() {
    let mut world = World::new();
    ask(&mut world, 1);
    let probes = world.sent();
    assert_eq!(probes.len(), 1);
    assert_eq!(world.vote(&probes[0]), None);
    world.now += MS;
    world.answer(&probes[0]);
    let answers = answers(&mut world);
    assert_eq!(answers[0].heard.heard_ago, Some(Duration::ZERO));
    assert!(world.advance(WAIT).is_empty(), "it is probed no more");
    assert_eq!(world.witness.next_wake(), None);
}

#[test]
fn silence_is_the_answer_when_the_time_is_over() {
    let mut world = World::new();
    ask(&mut world, 1);
    world.advance(WAIT - MS);
    assert_eq!(answers(&mut world), []);
    assert!(
        world
            .witness
            .next_wake()
            .is_some_and(|wake| wake <= world.now + MS)
    );
    world.advance(MS);
    let answers = answers(&mut world);
    assert_eq!(answers[0].heard.heard_ago, None);
    assert_eq!(answers[0].heard.node, "n1");
}

#[test]
fn a_probe_that_is_lost_is_not_the_last() {
    let mut world = World::new();
    ask(&mut world, 1);
    assert_eq!(world.sent().len(), 1);
    let again = (0..4)
        .flat_map(|_| world.advance(PERIOD))
        .collect::<Vec<_>>();
    assert!(again.len() >= 3, "{}", again.len());
    world.answer(&again[0]);
    assert_eq!(answers(&mut world).len(), 1);
}

#[test]
fn everyone_who_asks_is_answered() {
    let mut world = World::new();
    ask(&mut world, 1);
    world.advance(PERIOD);
    ask(&mut world, 1);
    ask(&mut world, 2);
    let probes = world.sent();
    let first = probes.iter().find(|probe| host(probe) == 1);
    world.answer(first.unwrap());
    assert_eq!(answers(&mut world).len(), 2);
    world.advance(WAIT);
    assert_eq!(answers(&mut world).len(), 1);
}

#[test]
fn whoever_asks_again_says_where_the_node_is_now() {
    let mut world = World::new();
    ask(&mut world, 1);
    assert_eq!(world.probed(), [1]);
    let mut moved = world.question(1, WAIT);
    moved.watched.addresses = world.watched(3, 0).addresses;
    world.witness.ask(world.now, &moved).unwrap();
    assert_eq!(world.probed(), [3]);
}

#[test]
fn a_node_that_comes_to_be_watched_meanwhile_is_answered_for_and_stays() {
    let mut world = World::new();
    ask(&mut world, 1);
    world.watch(vec![world.watched(1, 0)]);
    world.round();
    assert_eq!(answers(&mut world).len(), 1);
    assert_eq!(world.round().len(), 1);
}

#[test]
fn a_node_whose_address_goes_to_another_is_not_heard() {
    let mut world = World::new();
    ask(&mut world, 1);
    let mut other = world.watched(2, 0);
    other.addresses = world.watched(1, 0).addresses;
    world.watch(vec![other]);
    assert_eq!(world.witness.not_probed().count(), 0);
    world.advance(WAIT);
    let answers = answers(&mut world);
    assert_eq!(
        (&*answers[0].heard.node, answers[0].heard.heard_ago),
        ("n1", None)
    );
}

#[test]
fn questions_that_cannot_be_answered_are_refused() {
    let mut world = World::new();
    world.watch(vec![world.watched(1, 0)]);
    let refusal = |world: &mut World, question: Question| {
        let asked = world.witness.ask(world.now, &question);
        asked.unwrap_err()
    };
    let itself = world.question(9, WAIT);
    let error = refusal(&mut world, itself);
    assert!(matches!(error, AskError::Itself { .. }), "{error}");
    let port = Question {
        port: 863,
        ..world.question(2, WAIT)
    };
    let error = refusal(&mut world, port);
    assert!(matches!(error, AskError::OtherPort { .. }), "{error}");
    let mut taken = world.question(2, WAIT);
    taken.watched.addresses = world.watched(1, 0).addresses;
    let error = refusal(&mut world, taken);
    assert!(matches!(error, AskError::NotProbed { .. }), "{error}");
    assert_eq!(world.probed(), [1]);
}

#[test]
fn without_a_duty_nodes_are_asked_at_the_port_that_the_question_names() {
    let mut world = World::new();
    let port = Question {
        port: 863,
        ..world.question(1, WAIT)
    };
    world.witness.ask(world.now, &port).unwrap();
    assert_eq!(world.sent()[0].to.port(), 863);
}
