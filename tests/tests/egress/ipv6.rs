//! IPv6 egress IPs.

use std::net::UdpSocket;

use pulsepath_tests::{eventually, run};

use crate::pings::pings;
use crate::scene::{SOON, Scene, failover, seen_from};

const ADDRESS: &str = "fd78::100";

#[test]
fn an_ipv6_address_is_usable_at_once_and_answers_for_itself() {
    let scene = Scene::new("six-use");
    let agent = scene.start();
    agent.apply(1, vec![failover(ADDRESS)]);
    let shown = scene.address("eth0", ADDRESS).unwrap();
    assert_eq!(shown["prefixlen"], 128);
    assert!(shown["tentative"].is_null(), "{shown}");
    assert!(pings(&scene.outside, ADDRESS));
    agent.wait_until_announced(ADDRESS);
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
    scene
        .node
        .ip("address add fd99::1/64 dev in0 nodad")
        .unwrap();
    scene
        .client
        .ip("address add fd99::2/64 dev eth0 nodad")
        .unwrap();
    scene.client.ip("route add default via fd99::1").unwrap();
    let forward = "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding";
    run(scene.node.command("sh").args(["-c", forward])).unwrap();
    let agent = scene.start();
    let mut egress_ip = failover(ADDRESS);
    egress_ip.sources = vec!["fd99::/64".parse().unwrap()];
    agent.apply(1, vec![egress_ip]);
    let server = scene.socket(&scene.outside, "[fd78::fe]:0");
    let client = scene.socket(&scene.client, "[fd99::2]:0");
    client.connect(server.local_addr().unwrap()).unwrap();
    let from = eventually(SOON, || seen_from(&client, &server));
    assert_eq!(from.ip().to_string(), ADDRESS);
}
