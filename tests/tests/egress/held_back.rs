//! Sources that leave from an egress IP or not at all.

use std::net::UdpSocket;

use pulsepath_tests::run;

use crate::scene::{CLIENTS, EGRESS_IP, Scene, candidate_set, failover, seen_from};

/// A node that forwards whatever the agent does.
fn router(purpose: &str) -> Scene {
    let scene = Scene::new(purpose);
    let forwarding = ["-qw", "net.ipv4.ip_forward=1"];
    run(scene.node.command("sysctl").args(forwarding)).unwrap();
    scene
}

/// A server on another segment of the node's, which is none of the gateway's.
fn inside(scene: &Scene) -> UdpSocket {
    scene.node.ip("address add 10.79.0.1/24 dev eth1").unwrap();
    scene
        .outside
        .ip_batch(&format!(
            "address add 10.79.0.254/24 dev br0\n\
             route add {CLIENTS} via 10.79.0.1\n"
        ))
        .unwrap();
    scene.socket(&scene.outside, "10.79.0.254:0")
}

#[test]
fn a_candidate_without_the_address_lets_no_source_out() {
    let scene = router("held");
    let agent = scene.start();
    let (client, server) = scene.flow();
    assert!(seen_from(&client, &server).is_some(), "nothing is told yet");
    agent.try_apply(candidate_set(1, Vec::new()), 0).unwrap();
    let another = scene.socket(&scene.client, "10.99.0.2:0");
    another.connect(server.local_addr().unwrap()).unwrap();
    assert_eq!(seen_from(&client, &server), None, "an established flow");
    assert_eq!(seen_from(&another, &server), None, "a new flow");
}

#[test]
fn what_stays_inside_and_what_the_node_sends_itself_is_not_held_back() {
    let scene = router("inside");
    let agent = scene.start();
    let inside = inside(&scene);
    agent.try_apply(candidate_set(1, Vec::new()), 0).unwrap();
    let client = scene.socket(&scene.client, "10.99.0.2:0");
    client.connect(inside.local_addr().unwrap()).unwrap();
    let from = seen_from(&client, &inside).unwrap();
    assert_eq!(from.ip().to_string(), "10.99.0.2");
    let server = scene.socket(&scene.outside, "10.78.0.254:0");
    let node = scene.socket(&scene.node, "0.0.0.0:0");
    node.connect(server.local_addr().unwrap()).unwrap();
    assert!(seen_from(&node, &server).is_some());
}

#[test]
fn a_source_leaves_only_from_the_address_and_only_while_the_node_has_it() {
    let scene = router("only");
    let agent = scene.start();
    agent.try_apply(candidate_set(1, Vec::new()), 0).unwrap();
    let (client, server) = scene.flow();
    assert_eq!(seen_from(&client, &server), None);
    let held = vec![failover(EGRESS_IP)];
    agent.try_apply(candidate_set(2, held), 0).unwrap();
    let from = seen_from(&client, &server).unwrap();
    assert_eq!(from.ip().to_string(), EGRESS_IP);
    agent.try_apply(candidate_set(3, Vec::new()), 0).unwrap();
    assert_eq!(seen_from(&client, &server), None);
    let rules = run(scene.node.command("nft").args(["list", "ruleset"])).unwrap();
    assert!(rules.contains("drop"), "{rules}");
}

#[test]
fn a_flow_that_began_with_its_own_address_does_not_leave_with_it_any_more() {
    let scene = router("began");
    // Without a rule that asks for it, the kernel keeps no record of flows.
    let track = "table ip track { chain forward { \
                 type filter hook forward priority filter; ct state established accept; }; }";
    run(scene.node.command("nft").arg(track)).unwrap();
    let agent = scene.start();
    let (client, server) = scene.flow();
    let from = seen_from(&client, &server).unwrap();
    assert_eq!(from.ip().to_string(), "10.99.0.2", "nothing is told yet");
    let held = vec![failover(EGRESS_IP)];
    agent.try_apply(candidate_set(1, held), 0).unwrap();
    assert_eq!(seen_from(&client, &server), None);
    let another = scene.socket(&scene.client, "10.99.0.2:0");
    another.connect(server.local_addr().unwrap()).unwrap();
    let from = seen_from(&another, &server).unwrap();
    assert_eq!(from.ip().to_string(), EGRESS_IP);
}

#[test]
fn whoever_is_no_candidate_any_more_holds_nothing_back() {
    let scene = router("former");
    let agent = scene.start();
    agent.try_apply(candidate_set(1, Vec::new()), 0).unwrap();
    let (client, server) = scene.flow();
    assert_eq!(seen_from(&client, &server), None);
    agent.apply(2, Vec::new());
    assert!(seen_from(&client, &server).is_some());
}
