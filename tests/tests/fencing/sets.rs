//! An owner whose set of egress IPs, or of witnesses, changes: whoever uses its addresses does not notice.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use anyhow::ensure;
use pulsepath_tests::egress::{EGRESS_IP, PATIENCE, Scene, Setup, Stream};
use pulsepath_tests::eventually;
use pulsepath_tests::fencing::LEASE;

const STRICT: &str = "fencing = 'strict'\nlease = '2s'";
const QUORUM: &str = "fencing = 'quorum'\nlease = '2s'\nwitnesses.replace_after = '15s'";
/// Far longer than it takes to give a witness up, and to have another one.
const REPLACING: Duration = Duration::from_secs(60);
const OWNER: u8 = 1;
const SECOND: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 101);

/// Changes the gateway's egress IPs while a client sends through the first one, and waits until the
/// owner has what is expected.
fn change(purpose: &str, before: &[Ipv4Addr], after: &[Ipv4Addr]) {
    let setup = Setup {
        candidates: vec![OWNER],
        settings: STRICT.to_owned(),
        egress_ips: before.iter().map(Ipv4Addr::to_string).collect(),
        // Packets of the client's leave by the first one, whichever others there are.
        gateway: format!("default_ipv4 = '{EGRESS_IP}'"),
        ..Setup::default()
    };
    let mut scene = Scene::start(purpose, setup).unwrap();
    let stream = Stream::start(scene.external()).unwrap();
    stream.await_answers(100, PATIENCE).unwrap();
    let after: Vec<IpAddr> = after.iter().copied().map(IpAddr::from).collect();
    scene.set_egress_ips(&after).unwrap();
    scene.await_announced().unwrap();
    for address in before.iter().copied().map(IpAddr::from) {
        let holds = scene.holds(OWNER, &address.to_string()).unwrap();
        assert_eq!(holds, after.contains(&address), "{address}");
    }
    stream.await_answers(500, PATIENCE).unwrap();
    assert_nothing_lost(stream);
}

fn assert_nothing_lost(stream: Stream) {
    let report = stream.finish();
    println!("{} of {} lost", report.lost(), report.sent);
    assert_eq!(report.lost(), 0, "{report:?}");
}

#[test]
fn another_address_costs_an_owner_no_packet() {
    change("fence-add", &[EGRESS_IP], &[EGRESS_IP, SECOND]);
}

#[test]
fn one_address_less_costs_an_owner_no_packet() {
    change("fence-less", &[EGRESS_IP, SECOND], &[EGRESS_IP]);
}

#[test]
fn another_witness_costs_an_owner_no_packet_and_counts_without_a_controller() {
    let setup = Setup {
        nodes: 5,
        controller: 5,
        candidates: vec![OWNER],
        settings: QUORUM.to_owned(),
        ..Setup::default()
    };
    let mut scene = Scene::start("fence-witness", setup).unwrap();
    scene.await_witnesses().unwrap();
    let before = scene.witnesses_of(OWNER).unwrap();
    let stream = Stream::start(scene.external()).unwrap();
    stream.await_answers(100, PATIENCE).unwrap();
    let gone = before[0];
    scene.take_agent(gone).unwrap().kill().unwrap();
    eventually(REPLACING, || {
        let after = scene.witnesses_of(OWNER)?;
        ensure!(
            !after.contains(&gone) && after.len() == before.len(),
            "{after:?}"
        );
        Ok(after)
    });
    scene.await_witnesses().unwrap();
    // Of the three that it has now, one more is silent, and nobody else extends its lease.
    let other = before[1];
    scene.take_agent(other).unwrap().kill().unwrap();
    scene.take_controller().unwrap().kill().unwrap();
    std::thread::sleep(2 * LEASE);
    assert_nothing_lost(stream);
}
