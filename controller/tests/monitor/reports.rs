//! What the monitor reports, and what it shows.

use std::time::Duration;

use controller::api::{Agent, Transition};
use controller::health::{Reason, State};
use controller::metrics::Metrics;
use controller::monitor::Notice;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

use crate::world::{AGENTLESS, HEALTHY, PERIOD, ROUND_TRIP, TIMEOUT, World};

fn transitions(world: &mut World) -> Vec<Transition> {
    let transition = |notice| match notice {
        Notice::Transition(transition) => Some(transition),
        _ => None,
    };
    world.notices().into_iter().filter_map(transition).collect()
}

fn settled(world: &mut World) -> usize {
    world
        .notices()
        .iter()
        .filter(|notice| **notice == Notice::Settled)
        .count()
}

#[test]
fn transitions_are_numbered_and_say_what_led_to_them() {
    let (mut world, _consumer) = World::watching(&[("n1", &["10.0.0.1"])]);
    world.answer_as("10.0.0.1", HEALTHY);
    world.run(TIMEOUT);
    world.cut("10.0.0.1");
    world.run(TIMEOUT * 2);
    let transitions = transitions(&mut world);
    let [up, down] = &transitions[..] else {
        panic!("{transitions:?}")
    };
    assert_eq!(
        (up.sequence, up.from, up.to),
        (1, State::Unknown, State::Available)
    );
    assert_eq!(
        (down.sequence, down.from, down.to),
        (2, State::Available, State::Unreachable)
    );
    assert_eq!((up.reason, down.reason), (Reason::AgentUp, Reason::NoReply));
    let timeout = TIMEOUT.as_secs_f64() * 1e3;
    let latest = (TIMEOUT + PERIOD).as_secs_f64() * 1e3;
    assert!(
        down.silence_ms > timeout && down.silence_ms <= latest,
        "{down:?}"
    );
    let (at, last_reply) = (down.at.0, down.last_reply.unwrap().0);
    let silence = at.duration_since(last_reply).unwrap().as_secs_f64() * 1e3;
    assert!((silence - down.silence_ms).abs() < 0.001, "{down:?}");
}

#[test]
fn lasting_unavailability_is_announced_with_its_name() {
    let (mut world, _consumer) = World::watching(&[("n1", &["10.0.0.1"])]);
    world.answer_as("10.0.0.1", HEALTHY);
    world.run(TIMEOUT);
    world.answer_as("10.0.0.1", AGENTLESS);
    world.run(Duration::from_secs(4));
    let announced = |world: &mut World| {
        world
            .notices()
            .iter()
            .any(|n| matches!(n, Notice::Announced { .. }))
    };
    assert!(!announced(&mut world));
    world.run(Duration::from_secs(2));
    assert!(announced(&mut world));
}

#[test]
fn it_is_told_once_that_every_node_has_answered() {
    let (mut world, _consumer) = World::watching(&[("n1", &["10.0.0.1"]), ("n2", &["10.0.0.2"])]);
    world.answer_as("10.0.0.1", HEALTHY);
    world.run(PERIOD);
    assert_eq!(settled(&mut world), 0, "n2 has not answered");
    world.answer_as("10.0.0.2", AGENTLESS);
    world.run(PERIOD);
    assert_eq!(settled(&mut world), 1);
    world.cut("10.0.0.2");
    world.run(TIMEOUT * 3);
    assert_eq!(settled(&mut world), 0);
}

#[test]
fn a_silent_node_has_settled_when_it_is_unreachable() {
    let (mut world, _consumer) = World::watching(&[("n1", &["10.0.0.1"])]);
    world.run(TIMEOUT);
    assert_eq!(settled(&mut world), 0);
    world.run(PERIOD * 2);
    assert_eq!(settled(&mut world), 1);
}

#[test]
fn without_nodes_everything_has_settled_at_once() {
    let (mut world, _consumer) = World::watching(&[]);
    assert_eq!(settled(&mut world), 1);
}

#[test]
fn a_view_tells_round_trips_loss_and_agent() {
    let (mut world, _consumer) = World::watching(&[("n1", &["10.0.0.1", "10.0.0.2"])]);
    world.answer_as("10.0.0.1", HEALTHY);
    world.run(TIMEOUT * 5);
    let node = world.view("n1").to_api(world.now, TIMEOUT);
    let round_trip = node.round_trip.unwrap();
    assert_eq!(round_trip.last, ROUND_TRIP.as_secs_f64());
    assert_eq!(round_trip.max, ROUND_TRIP.as_secs_f64());
    let expected = Agent {
        up: true,
        draining: false,
        checks_ok: false,
        beat_age_ms: Some(5),
    };
    assert_eq!(node.agent, Some(expected));
    assert_eq!(node.incarnation.as_deref(), Some("0000000000000001"));
    let answering: Vec<_> = node
        .addresses
        .iter()
        .map(|address| address.answering)
        .collect();
    assert_eq!(answering, [true, false]);
    let loss = node.loss.unwrap();
    assert!(
        (0.3..=0.5).contains(&loss),
        "every second probe is lost: {loss}"
    );
    assert!(world.view("n1").lost > 10);
}

#[test]
fn the_board_shows_what_the_prober_counted() {
    let (mut world, _consumer) = World::watching(&[("n1", &["10.0.0.1"])]);
    world.answer_as("10.0.0.1", HEALTHY);
    world.run(PERIOD * 10);
    let (stats, _) = world.board.prober();
    assert!(stats.sent >= 9, "{stats:?}");
    assert_eq!(stats.answered, stats.sent);
}

#[test]
fn a_node_that_is_gone_takes_its_metrics_with_it() {
    let (mut world, _consumer) = World::watching(&[("n1", &["10.0.0.1"]), ("n2", &["10.0.0.2"])]);
    let mut registry = Registry::default();
    Metrics::register(&mut registry, world.board.clone());
    world.answer_as("10.0.0.1", HEALTHY);
    world.run(TIMEOUT * 2);
    let scrape = || {
        let mut text = String::new();
        text::encode(&mut text, &registry).unwrap();
        text
    };
    let before = scrape();
    for line in [
        r#"pulsepath_node_state{node="n1",state="AVAILABLE"} 1"#,
        r#"pulsepath_node_state{node="n1",state="UNREACHABLE"} 0"#,
        r#"pulsepath_node_state{node="n2",state="UNREACHABLE"} 1"#,
        r#"pulsepath_node_rtt_seconds{node="n1"} 0.0001"#,
        r#"pulsepath_probes_lost_total{node="n1"} 0"#,
    ] {
        assert!(before.contains(line), "{line} is not in\n{before}");
    }
    world.configure(&[("n2", &["10.0.0.2"])]);
    assert!(!scrape().contains(r#""n1""#));
}
