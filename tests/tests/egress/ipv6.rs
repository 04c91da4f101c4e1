//! IPv6 egress IPs.

use std::net::UdpSocket;

use pulsepath_tests::eventually;

use crate::pings::pings;
use crate::scene::{IPV6_EGRESS_IP, SOON, Scene, failover, ipv6_failover, seen_from};

#[test]
fn an_ipv6_address_is_usable_at_once_and_answers_for_itself() {
    let scene = Scene::new("six-use");
    let agent = scene.start();
    agent.apply(1, vec![failover(IPV6_EGRESS_IP)]);
    let shown = scene.address("eth0", IPV6_EGRESS_IP).unwrap();
    assert_eq!(shown["prefixlen"], 128);
    assert!(shown["tentative"].is_null(), "{shown}");
    assert!(pings(&scene.outside, IPV6_EGRESS_IP));
    agent.wait_until_announced(IPV6_EGRESS_IP);
}

#[test]
fn it_is_never_the_nodes_own_source() {
    let scene = Scene::new("six-src");
    // The only other address is a worse match for the destination than the egress IP.
    let agent = scene.start();
    agent.apply(1, vec![failover("fd78::fc")]);
    let source = scene.node.enter(|| {
        let socket = UdpSocket::bind("[::]:0").unwrap();
        socket.connect("[fd78::fe]:9").unwrap();
        socket.local_addr().unwrap().ip().to_string()
    });
    assert_eq!(source.unwrap(), "fd78::1");
}

#[test]
fn sources_leave_from_it() {
    let scene = Scene::new("six-nat");
    scene.add_ipv6_client();
    let agent = scene.start();
    agent.apply(1, vec![ipv6_failover(IPV6_EGRESS_IP)]);
    let (client, server) = scene.ipv6_flow();
    let from = eventually(SOON, || seen_from(&client, &server));
    assert_eq!(from.ip().to_string(), IPV6_EGRESS_IP);
}
