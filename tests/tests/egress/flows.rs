//! Traffic that leaves from an egress IP, and traffic that does so no more.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use probe_user::egress::EgressIp;
use pulsepath_tests::{eventually, run};

use crate::scene::{EGRESS_IP, IPV6_EGRESS_IP, SOON, Scene, failover, ipv6_failover, seen_from};

/// What a node has that runs kube-proxy or the like: rules of its own, which masquerade.
fn add_kube_proxy_like_rules(scene: &Scene) {
    let rules = "
        table inet kube {
            chain post {
                type nat hook postrouting priority srcnat; policy accept;
                meta mark & 0x4000 == 0 return
                masquerade fully-random
            }
            chain forward {
                type filter hook forward priority filter; policy accept;
                ct state invalid drop
                ct state established,related accept
            }
        }";
    let script = format!("echo '{rules}' | nft -f -");
    run(scene.node.command("sh").args(["-c", &script])).unwrap();
}

/// Addresses from which datagrams of a client arrive, until `until` says so.
fn record(server: &UdpSocket, until: &AtomicBool) -> Vec<IpAddr> {
    let mut seen = Vec::new();
    let mut buffer = [0; 16];
    while !until.load(Ordering::Relaxed) {
        seen.extend(
            server
                .recv_from(&mut buffer)
                .ok()
                .map(|(_, from)| from.ip()),
        );
    }
    seen
}

#[test]
fn sources_leave_from_the_address_with_their_own_port() {
    let scene = Scene::new("snat");
    let agent = scene.start();
    agent.apply(1, vec![failover(EGRESS_IP)]);
    let (client, server) = scene.flow();
    let from = seen_from(&client, &server).unwrap();
    assert_eq!(from.ip().to_string(), EGRESS_IP);
    assert_eq!(from.port(), client.local_addr().unwrap().port());
    server.send_to(b"pong", from).unwrap();
    assert_eq!(client.recv(&mut [0; 16]).unwrap(), 4);
}

#[test]
fn others_keep_their_own_address() {
    let scene = Scene::new("others");
    let agent = scene.start();
    agent.apply(1, vec![failover(EGRESS_IP)]);
    let server = scene.socket(&scene.outside, "10.78.0.254:0");
    let node = scene.socket(&scene.node, "0.0.0.0:0");
    node.connect(server.local_addr().unwrap()).unwrap();
    assert_eq!(
        seen_from(&node, &server).unwrap().ip().to_string(),
        "10.78.0.1"
    );
}

#[test]
fn a_source_keeps_its_address_when_another_one_goes() {
    let scene = Scene::new("spread");
    let clients: Vec<_> = (10..40).map(|host| format!("10.99.0.{host}")).collect();
    for client in &clients {
        scene
            .client
            .ip(&format!("address add {client}/24 dev eth0"))
            .unwrap();
    }
    let agent = scene.start();
    let three = ["10.78.0.101", "10.78.0.102", "10.78.0.103"];
    agent.apply(1, three.map(failover).into());
    let server = scene.socket(&scene.outside, "10.78.0.254:0");
    let measure = || -> HashMap<_, _> {
        let each = clients.iter().map(|client| {
            let socket = scene.socket(&scene.client, &format!("{client}:0"));
            socket.connect(server.local_addr().unwrap()).unwrap();
            (client.clone(), seen_from(&socket, &server).unwrap().ip())
        });
        each.collect()
    };
    let before = measure();
    let used: HashSet<_> = before.values().collect();
    assert_eq!(used.len(), 3, "{before:?}");
    agent.apply(2, [three[0], three[2]].map(failover).into());
    let gone: IpAddr = three[1].parse().unwrap();
    for (client, address) in measure() {
        assert!(address != gone, "{client}");
        assert!(
            before[&client] == gone || before[&client] == address,
            "{client}"
        );
    }
}

/// An agent whose one address is released while a client of its source sends all the time.
fn release_under_a_stream(
    scene: &Scene,
    (client, server): (UdpSocket, UdpSocket),
    egress_ip: EgressIp,
) {
    let address = egress_ip.address;
    add_kube_proxy_like_rules(scene);
    let agent = scene.start();
    agent.apply(1, vec![egress_ip]);
    let from = eventually(SOON, || seen_from(&client, &server));
    assert_eq!(from.ip(), address);
    let released = AtomicBool::new(false);
    let over = AtomicBool::new(false);
    let (before, after) = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                client.send(b"ping").unwrap();
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let before = scope.spawn(|| record(&server, &released));
        agent.apply(2, Vec::new());
        // What was sent before the release may still be in the socket.
        released.store(true, Ordering::Relaxed);
        let before = before.join().unwrap();
        let mut buffer = [0; 16];
        server.set_nonblocking(true).unwrap();
        while server.recv_from(&mut buffer).is_ok() {}
        server.set_nonblocking(false).unwrap();
        let after = scope.spawn(|| record(&server, &over));
        std::thread::sleep(Duration::from_millis(500));
        over.store(true, Ordering::Relaxed);
        (before, after.join().unwrap())
    });
    let still = after.iter().filter(|from| **from == address).count();
    assert!(
        after.len() > 100,
        "{} and {} packets",
        before.len(),
        after.len()
    );
    assert_eq!(still, 0, "of {} packets", after.len());
    let mut list = scene.node.command("conntrack");
    let entries = run(list.args(["-L", "-q", &address.to_string()])).unwrap();
    assert!(entries.is_empty(), "{entries}");
}

#[test]
fn no_packet_leaves_from_it_after_its_release_not_even_of_an_established_stream() {
    let scene = Scene::new("flush");
    release_under_a_stream(&scene, scene.flow(), failover(EGRESS_IP));
}

#[test]
fn no_packet_leaves_from_an_ipv6_address_after_its_release() {
    let scene = Scene::new("flush-six");
    scene.add_ipv6_client();
    release_under_a_stream(&scene, scene.ipv6_flow(), ipv6_failover(IPV6_EGRESS_IP));
}

#[test]
fn flows_of_other_addresses_live_on_when_one_is_released() {
    let scene = Scene::new("keep");
    let agent = scene.start();
    let other = EgressIp {
        sources: Vec::new(),
        ..failover("10.78.0.101")
    };
    agent.apply(1, vec![failover(EGRESS_IP), other]);
    let (client, server) = scene.flow();
    let from = seen_from(&client, &server).unwrap();
    agent.apply(2, vec![failover(EGRESS_IP)]);
    // The way back needs the entry: a datagram to the egress IP alone reaches nobody.
    server.send_to(b"pong", from).unwrap();
    assert_eq!(client.recv(&mut [0; 16]).unwrap(), 4);
}

#[test]
fn with_several_uplinks_traffic_leaves_by_the_one_that_has_its_address() {
    let scene = Scene::new("uplinks");
    // The better default route leads elsewhere; the egress IP's own uplink has a worse one.
    scene
        .node
        .ip_batch(
            "address add 10.79.0.1/24 dev eth1\n\
             route add default via 10.79.0.254 dev eth1 metric 1\n\
             route add default via 10.78.0.254 dev eth0 metric 2\n",
        )
        .unwrap();
    scene.outside.ip("address add 192.0.2.1/32 dev lo").unwrap();
    let agent = scene.start();
    agent.apply(1, vec![failover(EGRESS_IP)]);
    let server = scene.socket(&scene.outside, "192.0.2.1:0");
    let client = scene.socket(&scene.client, "10.99.0.2:0");
    client.connect(server.local_addr().unwrap()).unwrap();
    let from = seen_from(&client, &server).unwrap();
    assert_eq!(from.ip().to_string(), EGRESS_IP);
    server.send_to(b"pong", from).unwrap();
    assert_eq!(client.recv(&mut [0; 16]).unwrap(), 4);
    agent.apply(2, Vec::new());
    let rules = scene.node.ip("rule show").unwrap();
    assert!(!rules.contains("10.99.0.0/24"), "{rules}");
}
