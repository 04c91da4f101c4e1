//! Agents that end without a word, and those that come after them.

use pulsepath_tests::{eventually, run};

use crate::scene::{EGRESS_IP, SOON, Scene, SharedAssignment, failover, first, seen_from};

#[test]
fn a_new_agent_goes_on_with_the_addresses_and_flows_of_the_last_one() {
    let scene = Scene::new("restart");
    let agent = scene.start();
    agent.apply(7, vec![first(EGRESS_IP)]);
    let (client, server) = scene.flow();
    let from = seen_from(&client, &server).unwrap();
    drop(agent);
    let agent = scene.start();
    agent.wait_until_announced(EGRESS_IP);
    let status = agent.status();
    assert_eq!(status.applied_epoch, 7);
    assert_eq!((status.counters.added, status.counters.removed), (0, 0));
    server.send_to(b"pong", from).unwrap();
    assert_eq!(client.recv(&mut [0; 16]).unwrap(), 4);
    assert_eq!(seen_from(&client, &server), Some(from));
}

#[test]
fn addresses_stay_while_no_agent_runs() {
    let scene = Scene::new("absent");
    drop({
        let agent = scene.start();
        agent.apply(1, vec![failover(EGRESS_IP)]);
        agent
    });
    let (client, server) = scene.flow();
    assert_eq!(
        seen_from(&client, &server).unwrap().ip().to_string(),
        EGRESS_IP
    );
}

#[test]
fn an_agent_without_a_record_keeps_what_it_finds_until_it_is_told() {
    let scene = Scene::new("norecord");
    drop({
        let agent = scene.start();
        agent.apply(3, vec![failover(EGRESS_IP)]);
        agent
    });
    std::fs::remove_file(scene.state_file()).unwrap();
    let agent = scene.start();
    let status = agent.apply(3, vec![failover(EGRESS_IP)]);
    assert_eq!((status.counters.added, status.counters.removed), (0, 0));
    agent.wait_until_announced(EGRESS_IP);
}

#[test]
fn an_agent_in_another_incarnation_lets_go_of_what_was_recorded() {
    let mut scene = Scene::new("reborn");
    drop({
        let agent = scene.start();
        agent.apply(3, vec![failover(EGRESS_IP)]);
        agent
    });
    scene.kernel = SharedAssignment::new(2);
    let agent = scene.start();
    eventually(SOON, || scene.address("eth0", EGRESS_IP).is_none());
    assert_eq!(agent.status().applied_epoch, 0);
    eventually(SOON, || {
        let ruleset = run(scene.node.command("nft").args(["list", "ruleset"])).unwrap();
        !ruleset.contains("pulsepath")
    });
}

#[test]
fn an_address_that_was_taken_away_while_the_agent_was_gone_goes_when_it_is_told() {
    let scene = Scene::new("taken");
    drop({
        let agent = scene.start();
        agent.apply(1, vec![failover(EGRESS_IP), failover("10.78.0.101")]);
        agent
    });
    let agent = scene.start();
    agent.apply(2, vec![failover(EGRESS_IP)]);
    assert!(scene.address("eth0", "10.78.0.101").is_none());
    assert!(scene.address("eth0", EGRESS_IP).is_some());
}
