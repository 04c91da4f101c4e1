//! What a client notices: a thousand datagrams a second and a TCP connection through the owner.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use pulsepath_tests::egress::{Connection, EGRESS_IP, PATIENCE, Stream, StreamReport};

use crate::start_with_one_address;

/// So many cuts of the owner, one after the other.
const CUTS: usize = 5;
/// The owners fall more often than damping likes.
const UNDAMPED: &str = "failover.damping.count = 0";
/// An answer more or less is no outage, nor is the machine's being busy.
const SOME: u64 = 50;

#[test]
fn killed_agents_cost_nothing_and_move_nothing() {
    let (_alone, mut scene) = start_with_one_address("kill", "profile = 'default'");
    let owner = scene.owner().unwrap();
    let since = scene.address().unwrap().since;
    let stream = Stream::start(scene.external()).unwrap();
    for index in scene.indices() {
        scene.restart_agent(index).unwrap();
    }
    stream.await_answers(1_000, PATIENCE).unwrap();
    let report = finish(stream);
    println!("killed and restarted agents: {report:?}");
    assert_eq!(report.lost(), 0, "{report:?}");
    assert_eq!(
        (scene.owner().unwrap(), scene.address().unwrap().since),
        (owner, since)
    );
}

#[test]
fn a_cut_of_the_owner_is_over_soon_by_default() {
    cut_the_owner("default", Duration::from_millis(2_500));
}

#[test]
fn a_cut_of_the_owner_is_over_sooner_in_the_fast_profile() {
    cut_the_owner("fast", Duration::from_secs(1));
}

#[test]
fn a_drain_moves_the_address_with_a_short_outage_and_connections_live_on() {
    let (_alone, scene) = start_with_one_address("drain", "profile = 'default'");
    let owner = scene.owner().unwrap();
    let mut connection = Connection::open(scene.external()).unwrap();
    connection.exchange().unwrap();
    let stream = Stream::start(scene.external()).unwrap();
    scene.drain(owner).unwrap();
    scene.await_owner(3 - owner).unwrap();
    stream.await_answers(SOME, PATIENCE).unwrap();
    // Between release and announcement the old owner is still the client's next hop.
    let report = finish(stream);
    println!("drain: outage {:.1?}, {report:?}", report.longest_gap);
    assert!(
        report.longest_gap < Duration::from_millis(500),
        "{report:?}"
    );
    connection.exchange().unwrap();
}

/// Cuts whoever owns the address, mends it, and so on, and holds what the client saw of most cuts
/// against what is allowed: for the sake of busy machines, where a record alone may take a second
/// to reach the disk, that is more than is promised, and not of every cut. A connection that was
/// open lives on each time.
fn cut_the_owner(profile: &str, allowed: Duration) {
    let settings = format!("profile = '{profile}'\n{UNDAMPED}");
    let (_alone, scene) = start_with_one_address(&format!("cut-{profile}"), &settings);
    let cut = |_| {
        let owner = scene.owner().unwrap();
        let mut connection = Connection::open(scene.external()).unwrap();
        connection.exchange().unwrap();
        let stream = Stream::start(scene.external()).unwrap();
        stream.await_answers(SOME, PATIENCE).unwrap();
        scene.cut(owner).unwrap();
        scene.await_owner(3 - owner).unwrap();
        stream.await_answers(SOME, PATIENCE).unwrap();
        let outage = finish(stream).longest_gap;
        connection.exchange().unwrap();
        scene.heal(owner).unwrap();
        // Each cut is measured alone: a node that has just come back has the address for a moment.
        scene.await_released(owner).unwrap();
        assert_eq!(scene.owner().unwrap(), 3 - owner);
        outage
    };
    let outages = (0..CUTS).map(cut).collect();
    assert_most_within(&format!("{profile} profile"), outages, allowed);
}

/// Ends the stream; whatever happened, the server saw no address but the egress IP.
fn finish(stream: Stream) -> StreamReport {
    let report = stream.finish();
    let sources: Vec<_> = report.sources.keys().copied().collect();
    assert_eq!(sources, [IpAddr::from(EGRESS_IP)], "{report:?}");
    report
}

fn assert_most_within(what: &str, mut outages: Vec<Duration>, allowed: Duration) {
    outages.sort_unstable();
    let [median, max] = [outages.len() / 2, outages.len() - 1].map(|index| outages[index]);
    let mut line = format!(
        "{what}: {} cuts, median {median:.1?}, max {max:.1?}:",
        outages.len()
    );
    for outage in &outages {
        // Writing to a string cannot fail.
        let _ = write!(line, " {outage:.1?}");
    }
    println!("{line}");
    assert!(median <= allowed, "allowed {allowed:?}: {line}");
}
