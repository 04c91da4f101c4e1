//! Times: of arrival, of waiting, and of a prober that was not running.

use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use probe_user::session::Event;
use pulsepath_tests::{Cluster, Process};

use crate::probing::{PERIOD, Probing};
use crate::scene::start_agent;

fn probing(purpose: &str) -> (Probing, Process, Cluster) {
    let cluster = Cluster::new(purpose, 1).unwrap();
    let agent = start_agent(&cluster, 1, "");
    let mut probing = Probing::new(cluster.hub());
    let node = cluster.node(1);
    probing.insert(
        1,
        cluster.keys().node_keys("n1"),
        &[node.ipv4().into(), node.ipv6().into()],
    );
    probing.until(|probing| probing.replies(1) >= 4);
    (probing, agent, cluster)
}

#[test]
fn both_protocols_are_answered() {
    let (mut probing, _agent, cluster) = probing("p-both");
    probing.rounds(10);
    let node = cluster.node(1);
    for address in [IpAddr::from(node.ipv4()), IpAddr::from(node.ipv6())] {
        let replies = probing
            .events
            .iter()
            .filter(|event| matches!(event, Event::Reply { from, .. } if *from == address));
        assert!(replies.count() >= 10, "{address}");
    }
}

#[test]
fn a_prober_that_reads_late_still_measures_the_true_round_trip() {
    let (mut probing, _agent, _cluster) = probing("p-late-read");
    let delay = Duration::from_millis(300);
    probing.until(|probing| probing.stats().sent == probing.stats().answered);
    probing.events.clear();
    let due = probing.prober.next_wake().unwrap();
    thread::sleep(due.saturating_duration_since(Instant::now()));
    probing.socket.exchange(&mut probing.prober).unwrap();
    // Meanwhile the replies lie in the socket.
    thread::sleep(delay);
    probing.socket.receive(&mut probing.prober).unwrap();
    probing.collect();
    let read = Instant::now();
    let mut replies = 0;
    for event in &probing.events {
        if let Event::Reply { round_trip, at, .. } = event {
            assert!(*round_trip < delay / 2, "{round_trip:?}");
            assert!(read - *at > delay / 2, "{:?} ago", read - *at);
            replies += 1;
        }
    }
    assert_eq!(replies, 2);
}

#[test]
fn a_prober_that_did_not_run_excuses_the_time_and_loses_nothing() {
    let (mut probing, _agent, _cluster) = probing("p-stall");
    let stall = PERIOD * 20;
    let before = probing.stats();
    thread::sleep(stall);
    probing.rounds(5);
    let after = probing.stats();
    assert!(
        after.excused - before.excused >= stall - PERIOD,
        "{after:?}"
    );
    assert_eq!(after.lost, before.lost);
    assert!(after.lag.max >= stall - PERIOD);
}

#[test]
fn the_waker_ends_a_wait_from_another_thread() {
    let cluster = Cluster::new("p-waker", 1).unwrap();
    let mut probing = Probing::new(cluster.hub());
    let waker = probing.socket.waker();
    let waiting = thread::spawn(move || probing.socket.wait(None));
    waker.wake();
    waiting.join().unwrap().unwrap();
}

#[test]
fn a_wait_ends_in_time() {
    let cluster = Cluster::new("p-wait", 1).unwrap();
    let mut probing = Probing::new(cluster.hub());
    let until = Instant::now() + Duration::from_millis(30);
    probing.socket.wait(Some(until)).unwrap();
    assert!(Instant::now() >= until);
}
