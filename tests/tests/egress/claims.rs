//! Claiming and releasing.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use probe_user::egress::{AddressState, ApplyError, EgressIp};
use pulsepath_tests::{eventually, run};

use crate::pings::pings;
use crate::scene::{EGRESS_IP, SOON, Scene, failover, first, seen_from, set, state};

#[test]
fn a_claimed_address_is_announced_and_answers_pings() {
    let scene = Scene::new("claim");
    let agent = scene.start();
    let status = agent.apply(1, vec![first(EGRESS_IP)]);
    assert_eq!(state(&status, EGRESS_IP), Some(AddressState::Announced));
    assert_eq!(status.applied_epoch, 1);
    let address = scene.address("eth0", EGRESS_IP).unwrap();
    assert_eq!(address["prefixlen"], 32);
    assert!(pings(&scene.outside, EGRESS_IP));
}

#[test]
fn neighbours_learn_of_a_moved_address_at_once() {
    let scene = Scene::new("garp");
    // Somebody else had it, as the neighbour remembers.
    let neighbour = format!("neigh replace {EGRESS_IP} lladdr 02:00:00:00:00:99 dev br0 nud stale");
    scene.outside.ip(&neighbour).unwrap();
    let agent = scene.start();
    agent.apply(1, vec![failover(EGRESS_IP)]);
    eventually(SOON, || {
        let shown = scene
            .outside
            .ip(&format!("neigh show {EGRESS_IP}"))
            .unwrap();
        if shown.contains("02:00:00:00:00:99") {
            Err(shown)
        } else {
            Ok(())
        }
    });
}

#[test]
fn an_address_is_announced_six_times() {
    let scene = Scene::new("six");
    let agent = scene.start();
    agent.apply(1, vec![failover(EGRESS_IP)]);
    eventually(Duration::from_secs(8), || {
        agent.status().counters.announcements == 6
    });
}

#[test]
fn a_released_address_is_gone_before_the_epoch_is_applied() {
    let scene = Scene::new("release");
    let agent = scene.start();
    agent.apply(1, vec![failover(EGRESS_IP)]);
    let status = agent.apply(2, Vec::new());
    assert_eq!((status.applied_epoch, status.addresses.len()), (2, 0));
    assert!(scene.address("eth0", EGRESS_IP).is_none());
    let ruleset = run(scene.node.command("nft").args(["list", "ruleset"])).unwrap();
    assert!(!ruleset.contains("pulsepath"), "{ruleset}");
}

#[test]
fn an_older_epoch_and_another_incarnation_are_refused() {
    let scene = Scene::new("stale");
    let agent = scene.start();
    agent.apply(5, vec![failover(EGRESS_IP)]);
    let older = agent.try_apply(set(4, Vec::new()), 0).unwrap_err();
    assert_eq!(
        older,
        ApplyError::OlderEpoch {
            epoch: 4,
            applied: 5
        }
    );
    let other = agent.try_apply(set(6, Vec::new()), 7).unwrap_err();
    assert_eq!(other, ApplyError::WrongIncarnation { meant: 7, node: 1 });
    assert!(scene.address("eth0", EGRESS_IP).is_some());
}

#[test]
fn the_same_epoch_again_changes_nothing() {
    let scene = Scene::new("again");
    let agent = scene.start();
    agent.apply(1, vec![failover(EGRESS_IP)]);
    agent.apply(1, vec![failover(EGRESS_IP)]);
    assert_eq!(agent.status().counters.added, 1);
}

#[test]
fn other_interfaces_do_not_answer_for_it() {
    let scene = Scene::new("flux");
    let agent = scene.start();
    agent.apply(1, vec![failover(EGRESS_IP)]);
    let macs = |interface: &str| {
        let text = scene.node.ip(&format!("-j link show {interface}")).unwrap();
        let links: serde_json::Value = serde_json::from_str(&text).unwrap();
        links[0]["address"].as_str().unwrap().to_owned()
    };
    let mut ask = scene.outside.command("arping");
    let shown = run(ask.args(["-c3", "-w3", "-i", "br0", EGRESS_IP]))
        .unwrap()
        .to_lowercase();
    assert!(shown.contains(&macs("eth0")), "{shown}");
    assert!(!shown.contains(&macs("eth1")), "{shown}");
}

#[test]
fn the_node_itself_takes_no_connections_to_it() {
    let scene = Scene::new("input");
    let agent = scene.start();
    agent.apply(1, vec![failover(EGRESS_IP)]);
    let _listener = scene
        .node
        .enter(|| TcpListener::bind("0.0.0.0:80"))
        .unwrap()
        .unwrap();
    let connect = |address: &str| {
        let address: SocketAddr = format!("{address}:80").parse().unwrap();
        let patience = Duration::from_millis(300);
        scene
            .outside
            .enter(|| TcpStream::connect_timeout(&address, patience))
            .unwrap()
    };
    assert!(connect("10.78.0.1").is_ok());
    // Not even a reset: that would end connections which the node takes over.
    let error = connect(EGRESS_IP).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
}

#[test]
fn a_routed_address_is_configured_on_the_loopback_interface() {
    let scene = Scene::new("routed");
    let agent = scene.start();
    let routed = EgressIp {
        routed: true,
        ..failover("192.0.2.7")
    };
    let status = agent.apply(1, vec![routed]);
    assert_eq!(state(&status, "192.0.2.7"), Some(AddressState::Configured));
    assert!(scene.address("lo", "192.0.2.7").is_some());
    scene
        .outside
        .ip("route add 192.0.2.7/32 via 10.78.0.1")
        .unwrap();
    let (client, server) = scene.flow();
    assert_eq!(
        seen_from(&client, &server).unwrap().ip().to_string(),
        "192.0.2.7"
    );
}

#[test]
fn somebody_elses_address_is_left_alone() {
    let scene = Scene::new("foreign");
    scene
        .node
        .ip(&format!("address add {EGRESS_IP}/32 dev eth0"))
        .unwrap();
    let agent = scene.start();
    let status = agent.apply(1, vec![failover(EGRESS_IP)]);
    let Some(AddressState::Failed { error }) = state(&status, EGRESS_IP) else {
        panic!("{status:?}");
    };
    assert!(error.contains("somebody else has configured"), "{error}");
    agent.apply(2, Vec::new());
    assert!(scene.address("eth0", EGRESS_IP).is_some());
}
