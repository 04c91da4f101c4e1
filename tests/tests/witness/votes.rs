//! Votes, and what they do in another node's kernel.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use pulsepath_tests::{LinkState, eventually};

use crate::scene::{GATEWAY, LEASE, SOON, Scene, boot_now};

const EPOCH: u64 = 7;

/// The gateway with three witnesses that vote for it.
fn voted(purpose: &str) -> Scene {
    let scene = Scene::new(purpose, 3);
    for witness in 2..=4 {
        scene.watch(witness, 1, EPOCH);
    }
    let report = scene.push(EPOCH, Some(scene.set(1, &[2, 3, 4])));
    assert_eq!((report.applied_epoch, report.witness_version), (EPOCH, 1));
    scene.wait_until_held();
    scene
}

#[test]
fn a_majority_of_witnesses_keeps_a_lease_with_no_controller_at_all() {
    let mut scene = voted("majority");
    scene.kill(4);
    let until = Instant::now() + 2 * LEASE;
    while Instant::now() < until {
        assert!(scene.is_held());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(scene.lease().lapses(boot_now()), 0);

    scene.kill(3);
    scene.wait_until_lapsed();
    // Told by nobody.
    scene.start(3);
    scene.wait_until_held();
}

#[test]
fn a_gateway_that_its_witnesses_do_not_hear_loses_its_lease() {
    let scene = voted("unheard");
    scene
        .cluster
        .drop_packets(GATEWAY, pulsepath_tests::Direction::FromNode)
        .unwrap();
    scene.wait_until_lapsed();
    scene.cluster.pass_packets(GATEWAY).unwrap();
    scene.wait_until_held();
}

#[test]
fn no_witness_votes_below_what_it_has_promised() {
    let scene = voted("promise");
    for witness in [2, 3] {
        let report = scene.watch(witness, 2, EPOCH + 1);
        let heard = &report.heard[0];
        assert_eq!(heard.floor, EPOCH + 1);
        let voted = heard.voted_ago.expect("it has voted below");
        assert!(voted < SOON, "{voted:?}");
    }
    scene.wait_until_lapsed();
    // What was promised stays promised, whatever lower floor is named.
    let report = scene.watch(2, 3, EPOCH);
    assert_eq!(report.heard[0].floor, EPOCH + 1);
    assert!(!scene.is_held());

    scene.push(EPOCH + 1, Some(scene.set(1, &[2, 3, 4])));
    scene.wait_until_held();
}

#[test]
fn the_votes_of_a_former_set_count_no_more() {
    let mut scene = voted("change");
    scene.kill(4);
    // At the same epoch: only the set changes. 0x4 never votes.
    let mut set = scene.set(2, &[2, 3]);
    set.instances[1] = 0x4;
    set.instances.push(0x5);
    assert_eq!(scene.push(EPOCH, Some(set)).witness_version, 2);
    scene.wait_until_lapsed();

    let error = scene.try_push(EPOCH, Some(scene.set(1, &[2, 3])));
    let error = error.unwrap_err();
    assert!(
        error.message().contains("witness set 1 is older than 2"),
        "{error}"
    );
    scene.push(EPOCH, Some(scene.set(3, &[2, 3])));
    scene.wait_until_held();
}

#[test]
fn a_set_outlives_the_gateways_agent() {
    let mut scene = voted("outlives");
    scene.kill(GATEWAY);
    let renewed = scene.lease().expires_ns + LEASE.as_nanos() as u64;
    eventually(SOON, || scene.lease().expires_ns > renewed);
    scene.start(GATEWAY);
    let report = scene.push(EPOCH, Some(scene.set(1, &[2, 3, 4])));
    assert_eq!(report.witness_version, 1);
    assert_eq!(scene.lease().lapses(boot_now()), 0);
}

#[test]
fn what_a_frozen_witness_says_when_it_is_thawed_is_no_news() {
    let mut scene = voted("freeze");
    for witness in 2..=4 {
        scene.agent(witness).signal(Signal::SIGSTOP).unwrap();
    }
    scene.cluster.set_link(GATEWAY, LinkState::Down).unwrap();
    scene.wait_until_lapsed();
    let expired = scene.lease().expires_ns;
    // Nothing that the gateway says reaches them, but what they say reaches it.
    scene
        .cluster
        .drop_packets(GATEWAY, pulsepath_tests::Direction::FromNode)
        .unwrap();
    scene.cluster.set_link(GATEWAY, LinkState::Up).unwrap();
    let votes = scene.lease().votes;
    for witness in 2..=4 {
        scene.agent(witness).signal(Signal::SIGCONT).unwrap();
    }
    eventually(SOON, || scene.lease().votes > votes + 10);
    let lease = scene.lease();
    assert!(!lease.is_held(boot_now()));
    assert!(lease.expires_ns < expired + LEASE.as_nanos() as u64 / 2);
    scene.cluster.pass_packets(GATEWAY).unwrap();
    scene.wait_until_held();
}
