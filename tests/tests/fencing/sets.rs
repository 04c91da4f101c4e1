//! An owner whose set of egress IPs changes: the others do not notice.

use std::net::{IpAddr, Ipv4Addr};

use pulsepath_tests::egress::{EGRESS_IP, PATIENCE, Scene, Setup, Stream};

const STRICT: &str = "fencing = 'strict'\nlease = '2s'";
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
