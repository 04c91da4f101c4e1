//! The table: a frame, and what has to become of it at [`super::test_node`].

use std::format;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::string::String;
use std::vec;
use std::vec::Vec;

use super::frames::{FrameSpec, probe_frame};
use super::node::{HostNode, OTHER_KEY, SOURCE_V6, request};
use crate::outcome::Outcome;
use crate::siphash::SipKey;
use crate::wire::ntp::{NtpTime, UNKNOWN_ERROR};
use crate::wire::probe::{PROBE_LEN, ProbePacket, Request};
use crate::wire::stamp::StampBase;
use crate::wire::{NodeId, PROBE_PORT, SBFD_PORT};

const HOP_LIMIT: u8 = 64;
const SBFD_HOP_LIMIT: u8 = 255;

/// One row.
pub struct Case {
    /// What is special about the frame.
    pub name: String,
    /// The frame.
    pub frame: Vec<u8>,
    /// What has to become of it.
    pub expected: Outcome,
    /// For a frame that is answered: what it is made of, and the reply's hop limit.
    pub reply: Option<(FrameSpec, u8)>,
}

/// All rows. Every outcome occurs but `Unconfigured`, and `Foreign`, which needs plain STAMP off.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    answered(&mut cases);
    not_ours(&mut cases);
    refused_probes(&mut cases);
    truncated_probes(&mut cases);
    wrong_macs(&mut cases);
    stamp(&mut cases);
    sbfd(&mut cases);
    cases
}

fn push(cases: &mut Vec<Case>, name: impl Into<String>, frame: Vec<u8>, expected: Outcome) {
    cases.push(Case {
        name: name.into(),
        frame,
        expected,
        reply: None,
    });
}

fn push_answered(cases: &mut Vec<Case>, name: impl Into<String>, spec: FrameSpec, by: Outcome) {
    let hop_limit = if by == Outcome::AnsweredSbfd {
        SBFD_HOP_LIMIT
    } else {
        HOP_LIMIT
    };
    let frame = spec.build();
    cases.push(Case {
        name: name.into(),
        frame,
        expected: by,
        reply: Some((spec, hop_limit)),
    });
}

fn answered(cases: &mut Vec<Case>) {
    for source in [super::SOURCE_V4.into(), IpAddr::from(SOURCE_V6)] {
        for vlan_tags in 0..=2 {
            let spec = FrameSpec {
                vlan_tags,
                ..probe_frame()
            }
            .from_address(source);
            let name = format!("probe from {source} with {vlan_tags} VLAN tags");
            push_answered(cases, name, spec, Outcome::Answered);
        }
    }
    for words in 1..=10 {
        // Option 1: no operation.
        let spec = FrameSpec {
            options: vec![1; 4 * words],
            ..probe_frame()
        };
        push_answered(
            cases,
            format!("{words} words of options"),
            spec,
            Outcome::Answered,
        );
    }
    let vlan_and_options = FrameSpec {
        vlan_tags: 2,
        options: vec![1; 40],
        ..probe_frame()
    };
    push_answered(
        cases,
        "QinQ and 40 bytes of options",
        vlan_and_options,
        Outcome::Answered,
    );
    let next = Request {
        key_id: 2,
        ..request()
    }
    .encode(&HostNode::next_key());
    push_answered(
        cases,
        "next key",
        FrameSpec::new(&next.to_bytes()),
        Outcome::Answered,
    );
    let mut padded = FrameSpec {
        ttl: 1,
        ..probe_frame()
    };
    padded.source.set_port(PROBE_PORT);
    push_answered(
        cases,
        "TTL 1, from the probe port",
        padded,
        Outcome::Answered,
    );
}

fn not_ours(cases: &mut Vec<Case>) {
    let frame = probe_frame().to_port(861).build();
    push(cases, "another port", frame, Outcome::Unrelated);
    let mut elsewhere = probe_frame();
    elsewhere
        .destination
        .set_ip(Ipv4Addr::new(10, 77, 0, 3).into());
    push(
        cases,
        "another address",
        elsewhere.build(),
        Outcome::OtherAddress,
    );
    let first = FrameSpec {
        more_fragments: true,
        ..probe_frame()
    };
    push(cases, "first fragment", first.build(), Outcome::Unrelated);
    let later = FrameSpec {
        fragment_offset: 1,
        ..probe_frame()
    };
    push(cases, "later fragment", later.build(), Outcome::Unrelated);
    for (name, offset, value) in [
        ("ARP", 12..14, vec![0x08, 0x06]),
        (
            "a third VLAN tag",
            12..12,
            vec![0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 0x81, 0, 0, 3],
        ),
        ("TCP", 23..24, vec![6]),
        ("IPv4 header of 16 bytes", 14..15, vec![0x44]),
        ("IP version 5", 14..15, vec![0x55]),
        ("UDP length beyond the IP payload", 38..40, vec![0x40, 0]),
        ("UDP length below its header", 38..40, vec![0, 7]),
        ("IP payload behind the UDP datagram", 16..18, vec![0, 133]),
    ] {
        let mut frame = probe_frame().build();
        frame.splice(offset, value);
        push(cases, name, frame, Outcome::Unrelated);
    }
    let mut extension = probe_frame().from_address(SOURCE_V6).build();
    // Hop-by-hop options come first.
    extension[20] = 0;
    push(
        cases,
        "IPv6 extension header",
        extension,
        Outcome::Unrelated,
    );
}

fn refused_probes(cases: &mut Vec<Case>) {
    let key = HostNode::current_key();
    let mut refuse = |name: &str, packet: &[u8], expected| {
        push(cases, name, FrameSpec::new(packet).build(), expected);
    };
    let probe = request().encode(&key);
    let changed = |offset: usize, value: u8| {
        let mut bytes = probe.to_bytes();
        bytes[offset] = value;
        let mut packet = ProbePacket::from_bytes(&bytes);
        packet.sign(&key);
        packet.to_bytes()
    };
    refuse("version 2", &changed(48, 2), Outcome::WrongVersion);
    refuse("TLV length 57", &changed(47, 57), Outcome::WrongVersion);
    refuse("U flag clear", &changed(44, 0), Outcome::NotARequest);
    refuse("U and M flags", &changed(44, 0xc0), Outcome::NotARequest);
    let other = Request {
        node_id: NodeId::of("n2"),
        ..request()
    }
    .encode(&key);
    refuse("another node", &other.to_bytes(), Outcome::WrongTarget);
    let unknown = Request {
        key_id: 3,
        ..request()
    }
    .encode(&key);
    refuse("unknown key id", &unknown.to_bytes(), Outcome::UnknownKey);
    let forged = request().encode(&SipKey::from_bytes(&OTHER_KEY));
    refuse("another key", &forged.to_bytes(), Outcome::WrongMac);
    let swapped = Request {
        key_id: 2,
        ..request()
    }
    .encode(&key);
    refuse(
        "the current key under the next one's id",
        &swapped.to_bytes(),
        Outcome::WrongMac,
    );
    let mut reply = request().encode(&key);
    let node = super::test_node();
    crate::reflect::probe::answer(&mut reply, 64, &node.config, &node).unwrap();
    refuse("a reply", &reply.to_bytes(), Outcome::NotARequest);
    let longer = [&probe.to_bytes()[..], &[0; 4]].concat();
    refuse("four bytes more", &longer, Outcome::WrongSize);

    for source in [
        IpAddr::from(Ipv4Addr::UNSPECIFIED),
        Ipv4Addr::BROADCAST.into(),
        Ipv4Addr::new(224, 0, 0, 1).into(),
        Ipv6Addr::UNSPECIFIED.into(),
        Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1).into(),
    ] {
        let frame = probe_frame().from_address(source).build();
        push(cases, format!("from {source}"), frame, Outcome::WrongSource);
    }
    let mut port_zero = probe_frame();
    port_zero.source.set_port(0);
    push(
        cases,
        "from port 0",
        port_zero.build(),
        Outcome::WrongSource,
    );
}

/// A datagram of each shorter length, whole in itself, and a frame that ends before its datagram.
fn truncated_probes(cases: &mut Vec<Case>) {
    let whole = probe_frame();
    for length in 0..PROBE_LEN {
        let spec = FrameSpec {
            payload: whole.payload[..length].to_vec(),
            ..whole.clone()
        };
        let name = format!("payload of {length} bytes");
        match length {
            0..44 => push(cases, name, spec.build(), Outcome::ShortStamp),
            // No whole TLV header follows the base packet: plain STAMP.
            44..48 => push_answered(cases, name, spec, Outcome::AnsweredStamp),
            _ => push(cases, name, spec.build(), Outcome::WrongSize),
        }
    }
    for source in [super::SOURCE_V4.into(), IpAddr::from(SOURCE_V6)] {
        let frame = whole.clone().from_address(source).build();
        let payload = frame.len() - PROBE_LEN;
        for length in 14..frame.len() {
            let expected = match length {
                // A header is missing, or the UDP checksum, which nobody reads.
                _ if length < payload - 2 => Outcome::Unrelated,
                // The TLV's type is missing.
                _ if length < payload + 46 => Outcome::ShortStamp,
                _ => Outcome::WrongSize,
            };
            let name = format!("frame from {source} cut to {length} bytes");
            push(cases, name, frame[..length].to_vec(), expected);
        }
    }
}

fn wrong_macs(cases: &mut Vec<Case>) {
    let whole = probe_frame();
    for bit in 0..64 {
        let mut spec = whole.clone();
        spec.payload[96 + bit / 8] ^= 1 << (bit % 8);
        push(
            cases,
            format!("MAC with bit {bit} flipped"),
            spec.build(),
            Outcome::WrongMac,
        );
    }
    // Bits that no earlier check looks at: the MAC alone protects them.
    for byte in (0..44).chain([49]).chain(52..56).chain(64..96) {
        let mut spec = whole.clone();
        spec.payload[byte] ^= 0x10;
        push(
            cases,
            format!("byte {byte} changed"),
            spec.build(),
            Outcome::WrongMac,
        );
    }
}

fn stamp_payload(length: usize) -> Vec<u8> {
    let base = StampBase::request(9, NtpTime::from_unix_nanos(77), UNKNOWN_ERROR, 0xcafe);
    let mut payload = base.to_bytes(0).to_vec();
    payload.extend((payload.len()..length).map(|index| (index % 251) as u8));
    payload
}

fn stamp(cases: &mut Vec<Case>) {
    for length in [
        44, 45, 46, 47, 48, 51, 60, 100, 101, 102, 103, 1000, 1471, 1472,
    ] {
        let spec = FrameSpec::new(&stamp_payload(length));
        let name = format!("plain STAMP of {length} bytes");
        push_answered(cases, name, spec, Outcome::AnsweredStamp);
    }
    let spec = FrameSpec {
        vlan_tags: 2,
        ..FrameSpec::new(&stamp_payload(77))
    };
    push_answered(
        cases,
        "plain STAMP over IPv6 and QinQ",
        spec.from_address(SOURCE_V6),
        Outcome::AnsweredStamp,
    );
    let long = FrameSpec::new(&stamp_payload(1473)).build();
    push(cases, "plain STAMP of 1473 bytes", long, Outcome::LongStamp);
    let short = FrameSpec::new(&stamp_payload(44)[..43]).build();
    push(cases, "plain STAMP of 43 bytes", short, Outcome::ShortStamp);
    let stranger = FrameSpec::new(&stamp_payload(44)).from_address(Ipv4Addr::new(10, 78, 0, 1));
    push(
        cases,
        "plain STAMP from a stranger",
        stranger.build(),
        Outcome::SourceNotAllowed,
    );
    let mut reflector = FrameSpec::new(&stamp_payload(44));
    reflector.source.set_port(PROBE_PORT);
    push(
        cases,
        "plain STAMP from a reflector",
        reflector.build(),
        Outcome::FromReflector,
    );
}

/// An initiator's packet as RFC 7880 has it: version 1, Up and Demand, multiplier 3, length 24,
/// discriminators 9 and 77, min TX 50 ms.
const SBFD_REQUEST: [u8; 24] = [
    0x20, 0xc2, 3, 24, 0, 0, 0, 9, 0, 0, 0, 77, 0, 0, 0xc3, 0x50, 0, 0, 0, 0, 0, 0, 0, 0,
];

fn sbfd(cases: &mut Vec<Case>) {
    let spec = FrameSpec::new(&SBFD_REQUEST).to_port(SBFD_PORT);
    push_answered(cases, "S-BFD", spec.clone(), Outcome::AnsweredSbfd);
    let v6 = spec.clone().from_address(SOURCE_V6);
    push_answered(cases, "S-BFD over IPv6", v6, Outcome::AnsweredSbfd);
    for (name, offset, value, expected) in [
        ("S-BFD version 2", 0, 0x40, Outcome::MalformedSbfd),
        ("S-BFD with authentication", 1, 0xc6, Outcome::MalformedSbfd),
        ("S-BFD multipoint", 1, 0xc3, Outcome::MalformedSbfd),
        ("S-BFD multiplier 0", 2, 0, Outcome::MalformedSbfd),
        ("S-BFD length 23", 3, 23, Outcome::MalformedSbfd),
        ("S-BFD length 25", 3, 25, Outcome::MalformedSbfd),
        ("S-BFD from discriminator 0", 7, 0, Outcome::MalformedSbfd),
        ("S-BFD reply", 1, 0xc0, Outcome::SbfdNotDemand),
        (
            "S-BFD for another discriminator",
            11,
            78,
            Outcome::SbfdDiscriminator,
        ),
    ] {
        let mut spec = spec.clone();
        spec.payload[offset] = value;
        push(cases, name, spec.build(), expected);
    }
    let mut short = spec.clone();
    short.payload.pop();
    push(
        cases,
        "S-BFD of 23 bytes",
        short.build(),
        Outcome::MalformedSbfd,
    );
    let stranger = spec
        .clone()
        .from_address(Ipv4Addr::new(10, 78, 0, 1))
        .build();
    push(
        cases,
        "S-BFD from a stranger",
        stranger,
        Outcome::SourceNotAllowed,
    );
    let mut reflector = spec;
    reflector.source.set_port(SBFD_PORT);
    push(
        cases,
        "S-BFD from a reflector",
        reflector.build(),
        Outcome::FromReflector,
    );
}
