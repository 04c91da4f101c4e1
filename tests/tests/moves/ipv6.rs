//! An IPv6 egress IP that moves.

use std::net::{IpAddr, Ipv6Addr, UdpSocket};

use pulsepath_tests::egress::{
    CLIENTS_IPV6, Connection, EGRESS_IPV6, Family, PATIENCE, Scene, Setup, Stream,
};

use crate::start;

/// Enough to know that packets flow.
const SOME: u64 = 50;

#[test]
fn an_ipv6_address_moves_with_its_connections_and_is_never_its_owners_own_source() {
    let setup = Setup {
        settings: "period = '100ms'\ntimeout = '500ms'".to_owned(),
        egress_ips: vec![EGRESS_IPV6.to_string()],
        sources: vec![CLIENTS_IPV6.to_owned()],
        ..Setup::default()
    };
    let (_alone, scene) = start("six", setup);
    let owner = scene.owner().unwrap();
    let other = 3 - owner;
    assert_eq!(own_source(&scene, owner), own_address(owner));
    let mut connection = Connection::open_over(scene.external(), Family::Ipv6).unwrap();
    connection.exchange().unwrap();
    let stream = Stream::start_over(scene.external(), Family::Ipv6).unwrap();
    stream.await_answers(SOME, PATIENCE).unwrap();

    scene.cut(owner).unwrap();
    scene.await_owner(other).unwrap();
    stream.await_answers(SOME, PATIENCE).unwrap();
    let report = stream.finish();
    println!("cut: outage {:.1?}, {report:?}", report.longest_gap);
    let sources: Vec<_> = report.sources.keys().copied().collect();
    assert_eq!(sources, [IpAddr::from(EGRESS_IPV6)]);
    connection.exchange().unwrap();
    assert_eq!(own_source(&scene, other), own_address(other));

    scene.heal(owner).unwrap();
    scene.await_eligible(owner).unwrap();
    assert_eq!(scene.owner().unwrap(), other);
    connection.exchange().unwrap();
}

fn own_address(node: u8) -> Ipv6Addr {
    format!("fd78::{node}").parse().unwrap()
}

/// The address that node `index` would send from to a neighbour whose address is more like the
/// egress IP than like the node's own.
fn own_source(scene: &Scene, index: u8) -> IpAddr {
    let netns = scene.node(index).netns();
    let source = netns.enter(|| {
        let socket = UdpSocket::bind("[::]:0").unwrap();
        socket.connect("[fd78::1fe]:9").unwrap();
        socket.local_addr().unwrap().ip()
    });
    source.unwrap()
}
