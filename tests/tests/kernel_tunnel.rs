//! The tunnel counters, run on single packets by BPF_PROG_TEST_RUN.

#![expect(clippy::unwrap_used, reason = "a test panics to fail")]

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use probe_ebpf::maps::{DEFAULT_TUNNEL_PEERS, NO_VNI, TunnelConfig, TunnelKey};
use probe_ebpf::testing::{FrameSpec, TunnelCase, segment_cases, tunnel_cases, tunnel_config};
use probe_ebpf::tunnel::{Direction, LinkLayer};
use probe_user::kernel::{Peer, Traffic};
use pulsepath_tests::kernel::tunnels::{Counters, Gso, XDP_INTERFACE};

const DIRECTIONS: [Direction; 2] = [Direction::Received, Direction::Sent];
const PEERS: Option<u32> = Some(DEFAULT_TUNNEL_PEERS as u32);

/// Packets and bytes received, packets and bytes sent, by tunnel.
type Sums = BTreeMap<TunnelKey, [u64; 4]>;

fn sums(counters: &Counters) -> Sums {
    let sum = |peer: Peer| {
        let address = match peer.address {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        let key = TunnelKey {
            address: address.octets(),
            vni: peer.vni.unwrap_or(NO_VNI),
            encapsulation: peer.encapsulation,
        };
        let Traffic { packets, bytes, .. } = peer.received;
        (key, [packets, bytes, peer.sent.packets, peer.sent.bytes])
    };
    counters.peers().unwrap().into_iter().map(sum).collect()
}

fn add(sums: &mut Sums, key: TunnelKey, direction: Direction, packets: u64, bytes: u64) {
    let sums = sums.entry(key).or_default();
    let at = match direction {
        Direction::Received => 0,
        Direction::Sent => 2,
    };
    sums[at] += packets;
    sums[at + 1] += bytes;
}

/// Whether the kernel runs a tc program on a packet of our making: it refuses those that end inside
/// an Ethernet or IP header, and takes all for Ethernet frames.
fn is_taken(frame: &[u8]) -> bool {
    let ip_header = match frame.get(12..14) {
        Some([0x08, 0x00]) => 20,
        Some([0x86, 0xdd]) => 40,
        _ => 0,
    };
    frame.len() > 14 + ip_header
}

fn bytes(case: &TunnelCase) -> u64 {
    case.frame.len() as u64
}

#[test]
fn tc_counts_every_packet_for_its_tunnel_and_lets_it_pass_as_it_is() {
    let counters = Counters::load("tc", PEERS).unwrap();
    let mut expected = Sums::new();
    let mut run = 0;
    for per_vni in [false, true] {
        counters.configure(tunnel_config(per_vni)).unwrap();
        for case in tunnel_cases().iter().filter(|case| is_taken(&case.frame)) {
            for direction in DIRECTIONS {
                let program = counters.program(case.link, direction).unwrap();
                let out = program.pass(&case.frame, Gso::default()).expect(&case.name);
                assert_eq!(out, case.frame, "{}", case.name);
                if let Some(key) = case.expected(direction, per_vni) {
                    add(&mut expected, key, direction, 1, bytes(case));
                }
                assert_eq!(sums(&counters), expected, "{}, {direction:?}", case.name);
                run += 1;
            }
        }
    }
    println!("{run} packets");
    assert!(run > 500);
}

#[test]
fn xdp_counts_what_is_received_and_lets_it_pass_as_it_is() {
    let counters = Counters::load("xdp", PEERS).unwrap();
    let mut expected = Sums::new();
    for per_vni in [false, true] {
        counters.configure(on_xdp(per_vni, XDP_INTERFACE)).unwrap();
        // The kernel refuses XDP frames without a whole Ethernet header.
        let cases = tunnel_cases();
        let cases = cases.iter().filter(|case| case.frame.len() >= 14);
        for case in cases.filter(|case| case.link == LinkLayer::Ethernet) {
            let out = counters.pass_xdp(&case.frame).expect(&case.name);
            assert_eq!(out, case.frame, "{}", case.name);
            if let Some(key) = case.expected(Direction::Received, per_vni) {
                add(&mut expected, key, Direction::Received, 1, bytes(case));
            }
            assert_eq!(sums(&counters), expected, "{}", case.name);
        }
    }
}

fn on_xdp(per_vni: bool, xdp_interface: u32) -> TunnelConfig {
    TunnelConfig {
        xdp_interface,
        ..tunnel_config(per_vni)
    }
}

#[test]
fn xdp_counts_on_one_interface_only_and_nothing_where_tunnels_are_not_counted() {
    let vxlan = FrameSpec::new(&[8; 50]).to_port(4789).build();
    for (peers, interface, counted) in [
        (PEERS, XDP_INTERFACE, 1),
        (PEERS, XDP_INTERFACE + 1, 0),
        (PEERS, 0, 0),
        (None, XDP_INTERFACE, 0),
    ] {
        let counters = Counters::load("one", peers).unwrap();
        counters.configure(on_xdp(false, interface)).unwrap();
        counters.pass_xdp(&vxlan).unwrap();
        assert_eq!(sums(&counters).len(), counted, "{peers:?}, {interface}");
    }
}

#[test]
fn a_large_packet_counts_as_its_pieces_on_the_wire() {
    let counters = Counters::load("gso", PEERS).unwrap();
    counters.configure(tunnel_config(false)).unwrap();
    for direction in DIRECTIONS {
        let program = counters.program(LinkLayer::Ethernet, direction).unwrap();
        for case in segment_cases() {
            // Where nobody has counted the pieces, as with what a virtual machine sends, they are.
            for segments in [case.count, 0] {
                let before = total(&counters, direction);
                let gso = Gso {
                    segments,
                    size: case.size,
                };
                let out = program.pass(&case.frame, gso).expect(&case.name);
                assert_eq!(out, case.frame, "{}", case.name);
                let after = total(&counters, direction);
                let counted = (after.0 - before.0, after.1 - before.1);
                let wire = (case.wire.packets, case.wire.bytes);
                assert_eq!(counted, wire, "{}, {direction:?}, {segments}", case.name);
            }
        }
    }
}

fn total(counters: &Counters, direction: Direction) -> (u64, u64) {
    let traffic = |peer: Peer| match direction {
        Direction::Received => peer.received,
        Direction::Sent => peer.sent,
    };
    let all = counters.peers().unwrap().into_iter().map(traffic);
    all.fold((0, 0), |sum, it| (sum.0 + it.packets, sum.1 + it.bytes))
}

#[test]
fn both_directions_of_a_tunnel_are_one_entry_and_have_their_own_age() {
    let counters = Counters::load("age", PEERS).unwrap();
    counters.configure(tunnel_config(false)).unwrap();
    let peer: IpAddr = "10.8.0.1".parse().unwrap();
    let mut frame = FrameSpec::new(&[8; 50]).from_address(peer).to_port(4789);
    let received = counters.program(LinkLayer::Ethernet, Direction::Received);
    received
        .unwrap()
        .pass(&frame.build(), Gso::default())
        .unwrap();
    let [only] = counters.peers().unwrap().try_into().unwrap();
    assert!(
        only.received.age.is_some() && only.sent.age.is_none(),
        "{only:?}"
    );
    std::mem::swap(&mut frame.source, &mut frame.destination);
    frame.destination.set_port(4789);
    let sent = counters.program(LinkLayer::Ethernet, Direction::Sent);
    sent.unwrap().pass(&frame.build(), Gso::default()).unwrap();
    let [only] = counters.peers().unwrap().try_into().unwrap();
    assert_eq!(only.address, peer);
    let (received, sent) = (only.received.age.unwrap(), only.sent.age.unwrap());
    assert!(sent <= received, "{only:?}");
    assert_eq!((only.received.packets, only.sent.packets), (1, 1));
}

/// Packets from random addresses, of which each real peer sends one in so many.
const SPOOFED: u32 = 200_000;
const REAL_PEERS: u32 = 64;
const SPOOFED_BETWEEN: u32 = 4;

#[test]
fn a_flood_of_false_peers_takes_no_more_room_and_no_real_peers_count() {
    let counters = Counters::load("flood", PEERS).unwrap();
    counters.configure(tunnel_config(false)).unwrap();
    let program = counters.program(LinkLayer::Ethernet, Direction::Received);
    let program = program.unwrap();
    let from = |address: Ipv4Addr| FrameSpec::new(&[8; 50]).from_address(address).to_port(4789);
    let real = |number: u32| Ipv4Addr::from(0x0a08_0000 + number);
    // Not in order, as the real ones are.
    let spoofed =
        |number: u32| Ipv4Addr::from(0x2000_0000 | number.wrapping_mul(2_654_435_769) >> 4);
    for number in 0..SPOOFED {
        let frame = from(spoofed(number)).build();
        program.pass(&frame, Gso::default()).unwrap();
        if number % SPOOFED_BETWEEN == 0 {
            let frame = from(real(number / SPOOFED_BETWEEN % REAL_PEERS)).build();
            program.pass(&frame, Gso::default()).unwrap();
        }
    }
    let peers = counters.peers().unwrap();
    assert!(peers.len() <= DEFAULT_TUNNEL_PEERS, "{} peers", peers.len());
    for number in 0..REAL_PEERS {
        let peer = peers.iter().find(|peer| peer.address == real(number));
        let packets = peer.map(|peer| peer.received.packets);
        let sent = SPOOFED / SPOOFED_BETWEEN / REAL_PEERS;
        println!("{} {packets:?} of {sent}", real(number));
        assert!(
            packets >= Some(u64::from(sent)),
            "{}: {packets:?}",
            real(number)
        );
    }
}
