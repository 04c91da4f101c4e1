//! The table of large packets, and what the tunnel counters have to count them as.

use std::format;
use std::net::IpAddr;
use std::string::String;
use std::vec;
use std::vec::Vec;

use super::node::{SOURCE_V4, SOURCE_V6};
use super::tunnel::{BRIDGING, ETHERNET_HEADER, TCP, UDP, spec};
use crate::maps::Encapsulation;
use crate::tunnel::Wire;

/// One row: a packet that the kernel handles as one, and what it is on the wire.
pub struct SegmentCase {
    /// What is special about it.
    pub name: String,
    /// The packet.
    pub frame: Vec<u8>,
    /// Bytes behind the headers in each piece.
    pub size: u32,
    /// Pieces.
    pub count: u32,
    /// What has to be counted.
    pub wire: Wire,
}

/// All large packets: each encapsulation over both families, with both inside, and TCP or UDP in it.
pub fn segment_cases() -> Vec<SegmentCase> {
    let mut cases = Vec::new();
    for outer in [IpAddr::from(SOURCE_V4), SOURCE_V6.into()] {
        for inner in [IpAddr::from(SOURCE_V4), SOURCE_V6.into()] {
            for protocol in [TCP, UDP] {
                for encapsulation in Encapsulation::ALL {
                    for (payload, size) in [(3000, 1000), (2500, 1000), (1001, 1000), (7, 1)] {
                        let build =
                            |length: usize| segment(outer, encapsulation, inner, protocol, length);
                        cases.push(SegmentCase::new(build, payload, size).named(format!(
                            "{payload} bytes in pieces of {size}, protocol {protocol} over {inner} \
                             in {} over {outer}",
                            encapsulation.label()
                        )));
                    }
                }
            }
        }
    }
    cases
}

impl SegmentCase {
    /// `build` makes a packet with so many bytes behind its headers: each piece is built by itself,
    /// too, and counted.
    fn new(build: impl Fn(usize) -> Vec<u8>, payload: usize, size: usize) -> Self {
        let pieces = (0..payload).step_by(size);
        let pieces: Vec<_> = pieces.map(|at| build(size.min(payload - at))).collect();
        Self {
            name: String::new(),
            frame: build(payload),
            size: size as u32,
            count: pieces.len() as u32,
            wire: Wire {
                packets: pieces.len() as u64,
                bytes: pieces.iter().map(|piece| piece.len() as u64).sum(),
            },
        }
    }

    fn named(self, name: String) -> Self {
        Self { name, ..self }
    }
}

/// A packet of which `length` bytes are behind the innermost header that each piece repeats.
fn segment(
    outer: IpAddr,
    encapsulation: Encapsulation,
    inner: IpAddr,
    protocol: u8,
    length: usize,
) -> Vec<u8> {
    let inner = match protocol {
        // 12 bytes of options: timestamps.
        TCP => {
            let mut segment = vec![0; 32 + length];
            segment[12] = 8 << 4;
            spec(inner, &segment).build_ip(TCP)
        }
        _ => spec(inner, &vec![0; length]).build(),
    };
    match encapsulation {
        // What it carries cannot be seen: its own datagrams are the pieces.
        Encapsulation::WireGuard => spec(outer, &vec![0; length]).to_port(51_820).build(),
        // The inner family tells which of the two it is.
        Encapsulation::Ipip | Encapsulation::Sit => {
            let protocol = if inner[12..14] == [8, 0] { 4 } else { 41 };
            spec(outer, &inner[ETHERNET_HEADER..]).build_ip(protocol)
        }
        _ => wrap(outer, encapsulation, &inner),
    }
}

/// An Ethernet frame, wrapped; of GRE with a key and a sequence number, and of Geneve with options.
fn wrap(outer: IpAddr, encapsulation: Encapsulation, inner: &[u8]) -> Vec<u8> {
    let mut payload = match encapsulation {
        Encapsulation::Vxlan => vec![8, 0, 0, 0, 0, 0, 7, 0],
        Encapsulation::Geneve => {
            let mut header = vec![3, 0, BRIDGING[0], BRIDGING[1], 0, 0, 7, 0];
            header.extend([0; 12]);
            header
        }
        _ => {
            let mut header = vec![0x30, 0, BRIDGING[0], BRIDGING[1]];
            header.extend([0; 8]);
            header
        }
    };
    payload.extend(inner);
    let spec = spec(outer, &payload);
    match encapsulation {
        Encapsulation::Vxlan => spec.to_port(4789).build(),
        Encapsulation::Geneve => spec.to_port(6081).build(),
        _ => spec.build_ip(47),
    }
}
