//! What somebody undoes comes back.

use std::time::Duration;

use probe_user::egress::AddressState;
use pulsepath_tests::{eventually, run};

use crate::scene::{EGRESS_IP, SOON, Scene, failover, first, seen_from};

#[test]
fn an_address_deleted_by_hand_comes_back() {
    let scene = Scene::new("byhand");
    let agent = scene.start();
    agent.apply(1, vec![first(EGRESS_IP)]);
    scene
        .node
        .ip(&format!("address delete {EGRESS_IP}/32 dev eth0"))
        .unwrap();
    eventually(Duration::from_secs(1), || scene.address("eth0", EGRESS_IP));
}

#[test]
fn addresses_of_both_families_are_there_and_announced_after_the_link_was_down() {
    let scene = Scene::new("down");
    let agent = scene.start();
    agent.apply(1, vec![first(EGRESS_IP), first("fd78::100")]);
    scene.node.ip("link set eth0 down").unwrap();
    eventually(SOON, || {
        matches!(agent.state(EGRESS_IP), Some(AddressState::Failed { .. }))
    });
    let before = agent.status().counters.announcements;
    scene.node.ip("link set eth0 up").unwrap();
    eventually(SOON, || scene.address("eth0", EGRESS_IP));
    // Its subnet went with the link's own IPv6 address.
    scene
        .node
        .ip("address add fd78::1/64 dev eth0 nodad")
        .unwrap();
    eventually(SOON, || scene.address("eth0", "fd78::100"));
    agent.wait_until_announced(EGRESS_IP);
    agent.wait_until_announced("fd78::100");
    assert!(agent.status().counters.announcements > before);
}

#[test]
fn an_interface_that_is_made_again_gets_its_addresses_again() {
    let scene = Scene::new("remade");
    let agent = scene.start();
    agent.apply(1, vec![failover(EGRESS_IP)]);
    scene.node.ip("link delete eth0").unwrap();
    eventually(SOON, || {
        matches!(agent.state(EGRESS_IP), Some(AddressState::Failed { .. }))
    });
    scene.make_eth0();
    agent.wait_until_announced(EGRESS_IP);
    let (client, server) = scene.flow();
    let from = eventually(SOON, || seen_from(&client, &server));
    assert_eq!(from.ip().to_string(), EGRESS_IP);
}

#[test]
fn rules_that_somebody_flushed_come_back() {
    let scene = Scene::new("flushed");
    let agent = scene.start();
    agent.apply(1, vec![failover(EGRESS_IP)]);
    run(scene.node.command("nft").args(["flush", "ruleset"])).unwrap();
    eventually(SOON, || {
        let ruleset = run(scene.node.command("nft").args(["list", "ruleset"])).unwrap();
        ruleset.contains("snat ip to 10.78.0.100")
    });
}

#[test]
fn sysctls_are_put_back_when_the_last_address_goes() {
    let scene = Scene::new("sysctl");
    let agent = scene.start();
    let read = |path: &str| {
        let path = format!("/proc/sys/net/ipv4/conf/{path}");
        run(scene.node.command("cat").arg(path))
            .unwrap()
            .trim()
            .to_owned()
    };
    let both = || (read("all/arp_ignore"), read("eth0/arp_announce"));
    agent.apply(1, vec![failover(EGRESS_IP)]);
    assert_eq!(both(), ("1".to_owned(), "2".to_owned()));
    agent.apply(2, Vec::new());
    eventually(SOON, || both() == ("0".to_owned(), "0".to_owned()));
}
