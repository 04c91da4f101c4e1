//! What becomes of nodes that the controller does not hear, as others are asked about them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use controller::consumers::Consumer;
use controller::health::{Reason, State};
use controller::monitor::{Notice, Sighting};
use controller::tenure::Tenure;
use futures_util::FutureExt;
use probe_user::session::{Renewal, Right};

use crate::world::{HEALTHY, PERIOD, TIMEOUT, World};

const ALL: [(&str, &[&str]); 4] = [
    ("n1", &["10.0.0.1"]),
    ("n2", &["10.0.0.2"]),
    ("n3", &["10.0.0.3"]),
    ("n4", &["10.0.0.4"]),
];

/// Four nodes that are AVAILABLE.
pub(crate) fn healthy() -> (World, Consumer) {
    let (mut world, consumer) = World::watching(&ALL);
    for (_, addresses) in ALL {
        world.answer_as(addresses[0], HEALTHY);
    }
    world.run(TIMEOUT);
    world.notices();
    (world, consumer)
}

/// The same, when the controller has not heard n1 for three timeouts, while others do.
fn path_down() -> (World, Consumer) {
    let (mut world, consumer) = healthy();
    world.heard_by_others.insert("n1".to_owned(), true);
    world.cut("10.0.0.1");
    world.run(TIMEOUT * 3);
    (world, consumer)
}

pub(crate) fn extend_lease_of(world: &mut World, node: &str, time: Duration) {
    let renewal = Renewal {
        right: Right::Controller,
        floor: 1,
        time,
        since: world.now.instant,
    };
    let renewals = BTreeMap::from([(node.to_owned(), renewal)]);
    world.monitor.renew(renewals, Tenure::endless());
}

fn sighting(world: &World, node: &str) -> Sighting {
    let mut all = world.board.sightings().into_iter();
    all.find(|it| it.node == node).expect("a configured node")
}

pub(crate) fn conditions(world: &World, node: &str) -> Vec<(String, String)> {
    let node = world.view(node).to_api(world.now, TIMEOUT);
    let conditions = node.conditions.into_iter();
    conditions.map(|it| (it.name, it.message)).collect()
}

#[test]
fn nobody_is_asked_about_nodes_that_answer() {
    let (mut world, _consumer) = healthy();
    world.run(TIMEOUT * 10);
    assert_eq!(world.asks, []);
}

#[test]
fn others_are_asked_about_a_silent_node_in_time_to_be_heard() {
    let (mut world, _consumer) = healthy();
    world.cut("10.0.0.1");
    world.run(TIMEOUT * 2);
    let asked: BTreeSet<&str> = world.asks.iter().map(|ask| ask.witness.as_str()).collect();
    assert_eq!(asked, BTreeSet::from(["n2", "n3", "n4"]));
    let first = &world.asks[0];
    assert_eq!(first.node, "n1");
    assert!(
        first.wait >= PERIOD / 2 && first.wait <= TIMEOUT / 2 + PERIOD,
        "{first:?}"
    );
    assert!(
        first.max_age >= TIMEOUT / 2 - PERIOD && first.max_age < TIMEOUT / 2,
        "{first:?}"
    );
}

#[test]
fn only_nodes_that_are_available_and_heard_are_asked() {
    let (mut world, _consumer) = healthy();
    world.cut("10.0.0.2");
    world.run(TIMEOUT * 2);
    world.asks.clear();
    world.cut("10.0.0.1");
    world.cut("10.0.0.3");
    world.run(TIMEOUT * 2);
    let asked: BTreeSet<&str> = world.asks.iter().map(|ask| ask.witness.as_str()).collect();
    assert_eq!(asked, BTreeSet::from(["n4"]));
}

#[test]
fn a_node_that_nobody_hears_is_unreachable_as_soon_as_if_nobody_had_been_asked() {
    let (mut world, _consumer) = healthy();
    world.cut("10.0.0.1");
    world.run(TIMEOUT * 2);
    let notices = world.notices();
    let [Notice::Transition(down)] = &notices[..] else {
        panic!("{notices:?}")
    };
    assert_eq!(
        (down.to, down.reason),
        (State::Unreachable, Reason::NoReply)
    );
    let silence = Duration::from_secs_f64(down.silence_ms / 1e3);
    assert!(silence > TIMEOUT && silence <= TIMEOUT + PERIOD, "{down:?}");
}

#[test]
fn a_node_that_others_hear_stays_available_with_a_condition() {
    let (mut world, consumer) = healthy();
    assert!(consumer.changed().now_or_never().is_some());
    world.heard_by_others.insert("n1".to_owned(), true);
    world.cut("10.0.0.1");
    world.run(TIMEOUT * 3);
    assert_eq!(world.state("n1"), State::Available);
    let notices = world.notices();
    assert!(
        matches!(&notices[..], [Notice::PathDown { node, by, .. }] if node == "n1" && by.len() == 3),
        "{notices:?}"
    );
    let conditions = conditions(&world, "n1");
    let [(name, message)] = &conditions[..] else {
        panic!("{conditions:?}")
    };
    assert_eq!(name, "ControllerPathDown");
    assert!(
        ["n2", "n3", "n4"].iter().all(|by| message.contains(by)),
        "{message}"
    );
    assert!(consumer.changed().now_or_never().is_some());
    assert!(sighting(&world, "n1").only_others);
}

#[test]
fn what_others_heard_counts_as_hearing_for_those_who_decide() {
    let (world, _consumer) = path_down();
    let heard = sighting(&world, "n1").heard.expect("it was heard");
    assert!(world.now.instant - heard < TIMEOUT);
}

#[test]
fn the_condition_ends_when_the_node_answers_again() {
    let (mut world, consumer) = path_down();
    world.notices();
    consumer.changed().now_or_never();
    world.answer_as("10.0.0.1", HEALTHY);
    world.run(PERIOD * 2);
    let notices = world.notices();
    assert!(
        matches!(&notices[..], [Notice::PathBack { .. }]),
        "{notices:?}"
    );
    assert_eq!(conditions(&world, "n1"), []);
    assert!(consumer.changed().now_or_never().is_some());
    assert!(!sighting(&world, "n1").only_others);
}

#[test]
fn a_node_that_others_stop_hearing_is_unreachable_a_timeout_later() {
    let (mut world, _consumer) = path_down();
    world.heard_by_others.clear();
    world.run(TIMEOUT / 2 - PERIOD);
    assert_eq!(world.state("n1"), State::Available);
    world.run(TIMEOUT / 2 + PERIOD * 2);
    assert_eq!(world.state("n1"), State::Unreachable);
    assert_eq!(conditions(&world, "n1"), []);
}

#[test]
fn a_node_whose_lease_has_run_out_is_given_up_though_others_hear_it() {
    let (mut world, _consumer) = path_down();
    extend_lease_of(&mut world, "n1", TIMEOUT * 10);
    world.run(TIMEOUT * 2);
    assert_eq!(world.state("n1"), State::Available);
    world.heard_by_others.insert("n1".to_owned(), false);
    world.run(TIMEOUT);
    assert_eq!(world.state("n1"), State::Unreachable);
    assert_eq!(world.view("n1").reason, Reason::LeaseOver);
}

#[test]
fn a_node_whose_lease_nobody_extends_needs_none() {
    let (mut world, _consumer) = path_down();
    world.heard_by_others.insert("n1".to_owned(), false);
    world.run(TIMEOUT * 3);
    assert_eq!(world.state("n1"), State::Available);
}

#[test]
fn witnesses_in_a_zone_of_their_own_are_asked_first() {
    let (mut world, _consumer) = healthy();
    let spec = |name: &str, address: &str, zone: &str| {
        let mut spec = world.spec(name, &[address]);
        let label = "topology.kubernetes.io/zone".to_owned();
        spec.labels.insert(label, zone.to_owned());
        spec
    };
    let mut specs = vec![spec("n1", "10.0.0.1", "a"), spec("z", "10.0.0.99", "b")];
    specs.extend((10..60).map(|it| spec(&format!("n{it}"), &format!("10.0.0.{it}"), "a")));
    world.apply(specs);
    (10..60).for_each(|it| world.answer_as(&format!("10.0.0.{it}"), HEALTHY));
    world.answer_as("10.0.0.99", HEALTHY);
    world.run(TIMEOUT);
    world.cut("10.0.0.1");
    world.run(TIMEOUT / 2 + PERIOD);
    let first: Vec<&str> = world.asks[..3]
        .iter()
        .map(|ask| ask.witness.as_str())
        .collect();
    assert!(first.contains(&"z"), "{first:?}");
}

#[test]
fn without_a_way_to_ask_nobody_is_asked() {
    let settings = controller::monitor::MonitorSettings {
        ask: false,
        ..crate::world::SETTINGS
    };
    let mut world = World::with(settings, Default::default());
    let consumer = world.consumers.register("test");
    consumer.set_interest(controller::consumers::Interest::All);
    world.configure(&ALL);
    world.run(TIMEOUT * 2);
    assert_eq!(world.asks, []);
}

#[test]
fn when_most_nodes_fall_silent_at_once_few_are_asked_about_beyond_those_that_others_hear() {
    let (mut world, _consumer) = World::watching(&[]);
    let address = |number: u32| format!("10.0.{}.{}", number / 250, number % 250 + 1);
    let spec = |number| world.spec(&format!("n{number}"), &[&address(number)]);
    let specs = (0..600).map(spec).collect();
    world.apply(specs);
    (0..600).for_each(|number| world.answer_as(&address(number), HEALTHY));
    world.run(TIMEOUT);
    for number in 0..10 {
        world.heard_by_others.insert(format!("n{number}"), true);
        world.cut(&address(number));
    }
    world.run(TIMEOUT * 3);
    world.asks.clear();

    (10..500).for_each(|number| world.cut(&address(number)));
    world.run(TIMEOUT * 2);
    // Three about each in every round would be thousands.
    let others_hear = |node: &str| node[1..].parse::<u32>().is_ok_and(|number| number < 10);
    let about_silent = world.asks.iter().filter(|ask| !others_hear(&ask.node));
    assert!(about_silent.count() <= 600);
    let states = |numbers: std::ops::Range<u32>, state| {
        numbers
            .filter(|number| world.state(&format!("n{number}")) == state)
            .count()
    };
    assert_eq!(states(0..10, State::Available), 10);
    assert_eq!(states(10..500, State::Unreachable), 490);
}
