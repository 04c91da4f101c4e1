//! States as they follow from what happens to agents and links.

use std::time::Duration;

use controller::api::{State, StreamLine};
use pulsepath_tests::{Direction, LinkState, Signal, eventually, http};

use crate::world::{PATIENCE, World};

#[test]
fn every_node_is_seen_available_the_controllers_own_included() {
    let world = World::all_available("available", 2);
    let own = world.node("n1");
    assert!(
        own.addresses.iter().all(|address| address.answering),
        "{own:?}"
    );
    assert_eq!(world.get("/ready").0, 200);
}

#[test]
fn a_node_whose_agent_is_killed_is_unavailable_until_it_runs_again_and_loses_no_probe() {
    let mut world = World::all_available("kill", 2);
    let before = world.node("n2");
    world.kill_agent(2);
    world.await_state("n2", State::Unavailable);
    assert!(!world.node("n2").agent.unwrap().up);
    world.start_agent(2);
    world.await_state("n2", State::Available);
    assert_eq!(
        world.node("n2").incarnation,
        before.incarnation,
        "the kernel state lived on"
    );
    world.await_rounds(20);
    assert_eq!(
        world.metric("pulsepath_probes_lost_total{node=\"n2\"}"),
        0.0
    );
}

#[test]
fn a_node_whose_link_is_cut_is_unreachable_until_it_is_mended() {
    let world = World::all_available("cut", 2);
    world.cluster.set_link(2, LinkState::Down).unwrap();
    world.await_state("n2", State::Unreachable);
    assert_eq!(world.node("n1").state, State::Available);
    world.cluster.set_link(2, LinkState::Up).unwrap();
    world.await_state("n2", State::Available);
}

#[test]
fn a_node_that_is_not_heard_is_unreachable_whichever_direction_fails() {
    let world = World::all_available("direction", 2);
    for direction in [Direction::ToNode, Direction::FromNode] {
        world.cluster.drop_packets(2, direction).unwrap();
        world.await_state("n2", State::Unreachable);
        world.cluster.pass_packets(2).unwrap();
        world.await_state("n2", State::Available);
    }
}

#[test]
fn a_controller_that_was_stopped_for_a_while_blames_nobody() {
    let mut world = World::all_available("stop", 2);
    let transitions = |world: &World| -> Vec<String> {
        let metrics = world.get("/metrics").1;
        let lines = metrics
            .lines()
            .filter(|line| line.contains("node_transitions_total{"));
        lines.map(str::to_owned).collect()
    };
    let before = transitions(&world);
    world.controller().signal(Signal::SIGSTOP).unwrap();
    std::thread::sleep(Duration::from_secs(3));
    world.controller().signal(Signal::SIGCONT).unwrap();
    world.await_rounds(20);
    assert_eq!(transitions(&world), before);
    assert!(
        world
            .nodes()
            .iter()
            .all(|node| node.state == State::Available)
    );
    assert!(world.metric("pulsepath_prober_excused_seconds_total") > 2.0);
}

#[test]
fn transitions_are_streamed_as_they_happen() {
    let mut world = World::all_available("stream", 2);
    let server = "127.0.0.1:9865".parse().unwrap();
    let netns = world.cluster.node(1).netns();
    let mut lines = http::lines(netns, server, "/v1/transitions").unwrap();
    world.kill_agent(2);
    let line = lines.next().unwrap().unwrap();
    let StreamLine::Transition(transition) = serde_json::from_str(&line).unwrap() else {
        panic!("{line}");
    };
    assert_eq!(transition.node, "n2");
    assert_eq!(
        (transition.from, transition.to),
        (State::Available, State::Unavailable)
    );
}

#[test]
fn each_transition_is_a_log_line_with_its_fields() {
    let mut world = World::new("log", 1);
    let config = world
        .cluster
        .controller_config(&format!("{}log.format = 'json'\n", crate::world::FAST));
    world.start_controller(&config);
    world.await_state("n1", State::Unreachable);
    let is_transition = |line: &serde_json::Value| line["message"] == "transition";
    let line = eventually(PATIENCE, || {
        let log = world.controller_log();
        log.lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .find(is_transition)
    });
    assert_eq!(line["node"], "n1");
    assert_eq!(line["from"], "UNKNOWN");
    assert_eq!(line["to"], "UNREACHABLE");
    assert_eq!(line["reason"], "NoReply");
    assert!(line["silence"].as_str().unwrap().contains("ms"), "{line}");
}

#[test]
fn a_controller_that_has_heard_nobody_is_ready_once_everybody_is_decided_on() {
    let mut world = World::new("ready", 1);
    let config = world
        .cluster
        .controller_config("period = '500ms'\ntimeout = '2s'\n");
    world.start_controller(&config);
    let (status, body) = world.get("/ready");
    assert_eq!(status, 503, "{body}");
    assert!(body.contains("not every node has answered"), "{body}");
    eventually(PATIENCE, || world.get("/ready").0 == 200);
}
