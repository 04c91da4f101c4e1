use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::frame::Frame;
use crate::maps::{Encapsulation, TunnelConfig};
use crate::testing::{FrameSpec, segment_cases, tunnel_cases, tunnel_config};

const DIRECTIONS: [Direction; 2] = [Direction::Received, Direction::Sent];

fn segments(length: usize, count: u32, size: u32) -> Segments {
    Segments {
        length: length as u32,
        beside: 0,
        count,
        size,
    }
}

#[test]
fn every_packet_is_counted_for_its_tunnel_and_stays_as_it_is() {
    for case in tunnel_cases() {
        for direction in DIRECTIONS {
            for per_vni in [false, true] {
                let mut frame = case.frame.clone();
                let config = tunnel_config(per_vni);
                let found =
                    TunnelPacket::read(&Frame::new(&mut frame), case.link, direction, &config);
                let found = found.ok().flatten().map(|packet| packet.key);
                let expected = case.expected(direction, per_vni);
                assert_eq!(found, expected, "{}, {direction:?}", case.name);
                assert_eq!(frame, case.frame, "{}", case.name);
            }
        }
    }
}

#[test]
fn every_encapsulation_has_its_case() {
    let seen: BTreeSet<_> = tunnel_cases()
        .iter()
        .filter_map(|case| case.expected(Direction::Sent, true))
        .map(|key| key.encapsulation)
        .collect();
    assert_eq!(seen, Encapsulation::ALL.into());
}

#[test]
fn a_large_packet_counts_as_its_pieces_with_all_their_headers() {
    for case in segment_cases() {
        let mut bytes = case.frame.clone();
        let frame = Frame::new(&mut bytes);
        let (link, direction) = (LinkLayer::Ethernet, Direction::Sent);
        let packet = TunnelPacket::read(&frame, link, direction, &tunnel_config(false));
        let packet = packet.unwrap().unwrap();
        let headers = headers(&frame, packet.payload, packet.key.encapsulation).unwrap();
        for count in [case.count, 0] {
            let segments = segments(case.frame.len(), count, case.size);
            assert_eq!(
                segments.on_the_wire(headers),
                case.wire,
                "{}, {count}",
                case.name
            );
        }
    }
}

#[test]
fn a_packet_that_comes_without_its_ethernet_header_is_seen_to() {
    const IPV4: u16 = 0x0800_u16.to_be();
    const VLAN: u16 = 0x8100_u16.to_be();
    let frame = |vlan_tags| FrameSpec {
        vlan_tags,
        ..FrameSpec::new(&[8; 50])
    };
    for (mut bytes, protocol, expected) in [
        (frame(0).build(), IPV4, LinkLayer::Ethernet),
        (frame(0).build()[14..].to_vec(), IPV4, LinkLayer::None),
        (frame(1).build(), VLAN, LinkLayer::Ethernet),
        // The kernel has read the tag, and left it where it is.
        (frame(1).build(), IPV4, LinkLayer::Ethernet),
    ] {
        let found = LinkLayer::Ethernet.received(&Frame::new(&mut bytes), protocol);
        assert_eq!(found, expected, "{bytes:02x?}");
    }
}

#[test]
fn a_packet_that_is_one_counts_as_one() {
    let wire = segments(1500, 0, 0).on_the_wire(0);
    assert_eq!((wire.packets, wire.bytes), (1, 1500));
}

#[test]
fn a_tag_beside_the_packet_counts_once_for_each_piece() {
    let tagged = |count, size| Segments {
        beside: 4,
        ..segments(3054, count, size)
    };
    assert_eq!(tagged(0, 0).on_the_wire(0).bytes, 3058);
    assert_eq!(tagged(3, 1000).on_the_wire(54).bytes, 3 * (1000 + 54 + 4));
}

#[test]
fn ports_beyond_those_configured_are_not_tunnels() {
    let config = TunnelConfig::new([(1000, Encapsulation::Vxlan)]);
    assert_eq!(config.udp_tunnel(5, 1000), Some(Encapsulation::Vxlan));
    assert_eq!(config.udp_tunnel(5, 4789), None);
    assert_eq!(config.udp_tunnel(5, 0), None, "an unused entry");
}

proptest! {
    #[test]
    fn no_bytes_are_read_beyond_a_packets_end(mut bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let frame = Frame::new(&mut bytes);
        for link in [LinkLayer::Ethernet, LinkLayer::None] {
            let packet = TunnelPacket::read(&frame, link, Direction::Sent, &tunnel_config(true));
            if let Ok(Some(packet)) = packet {
                let _ = headers(&frame, packet.payload, packet.key.encapsulation);
            }
        }
    }
}
