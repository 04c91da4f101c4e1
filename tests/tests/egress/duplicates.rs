//! Somebody else who has the address.

use std::time::{Duration, Instant};

use probe_user::egress::AddressState;
use pulsepath_tests::{Netns, eventually};

use crate::scene::{EGRESS_IP, SOON, Scene, failover, first, state};

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x77];

/// A host on the external segment with these addresses.
fn other(scene: &Scene, purpose: &str, addresses: &[&str]) -> Netns {
    let other = Netns::new(&format!("r-{purpose}-other")).unwrap();
    scene
        .outside
        .ip_batch(&format!(
            "link add other type veth peer name eth0 netns {}\n\
             link set other master br0 up\n",
            other.name()
        ))
        .unwrap();
    other
        .ip("link set eth0 address 02:00:00:00:00:77 up")
        .unwrap();
    for address in addresses {
        let nodad = if address.contains(':') { "nodad" } else { "" };
        other
            .ip(&format!("address add {address} dev eth0 {nodad}"))
            .unwrap();
    }
    other
}

#[test]
fn at_a_first_claim_it_is_reported_and_nothing_is_configured_until_it_is_gone() {
    let scene = Scene::new("dup");
    let other = other(&scene, "dup", &["10.78.0.100/24"]);
    let agent = scene.start();
    let begun = Instant::now();
    let status = agent.apply(1, vec![first(EGRESS_IP)]);
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(
        state(&status, EGRESS_IP),
        Some(AddressState::Duplicate { mac: MAC })
    );
    assert!(scene.address("eth0", EGRESS_IP).is_none());
    other.ip("address delete 10.78.0.100/24 dev eth0").unwrap();
    eventually(Duration::from_secs(15), || scene.address("eth0", EGRESS_IP));
    agent.wait_until_announced(EGRESS_IP);
}

#[test]
fn at_a_failover_the_address_is_claimed_and_the_other_reported_while_it_is_there() {
    let scene = Scene::new("dupfail");
    let other = other(&scene, "dupfail", &["10.78.0.100/24"]);
    let agent = scene.start();
    let begun = Instant::now();
    agent.apply(1, vec![failover(EGRESS_IP)]);
    assert!(
        begun.elapsed() < Duration::from_millis(250),
        "{:?}",
        begun.elapsed()
    );
    assert!(scene.address("eth0", EGRESS_IP).is_some());
    eventually(SOON, || {
        agent.state(EGRESS_IP) == Some(AddressState::Duplicate { mac: MAC })
    });
    other.ip("address delete 10.78.0.100/24 dev eth0").unwrap();
    eventually(Duration::from_secs(30), || {
        agent.state(EGRESS_IP) == Some(AddressState::Announced)
    });
}

#[test]
fn one_that_comes_later_is_noticed() {
    let scene = Scene::new("duplate");
    let agent = scene.start();
    agent.apply(1, vec![failover(EGRESS_IP)]);
    let other = other(&scene, "duplate", &["10.78.0.100/24"]);
    let mut claim = other.command("arping");
    claim.args(["-c1", "-U", "-i", "eth0", EGRESS_IP]);
    eventually(SOON, || {
        let _ = claim.output();
        agent.state(EGRESS_IP) == Some(AddressState::Duplicate { mac: MAC })
    });
}

#[test]
fn an_ipv6_duplicate_is_found_by_neighbour_discovery() {
    let scene = Scene::new("dup6");
    let _other = other(&scene, "dup6", &["fd78::100/64"]);
    let agent = scene.start();
    let status = agent.apply(1, vec![first("fd78::100")]);
    assert_eq!(
        state(&status, "fd78::100"),
        Some(AddressState::Duplicate { mac: MAC })
    );
    assert!(scene.address("eth0", "fd78::100").is_none());
}
