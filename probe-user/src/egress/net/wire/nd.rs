//! Neighbour discovery for IPv6.

use std::net::{IpAddr, Ipv6Addr};

use super::{Claimed, Mac, bytes, ethernet};

pub(super) const ETHERTYPE: u16 = 0x86dd;
pub(super) const ICMPV6: u8 = 58;
pub(super) const SOLICITATION: u8 = 135;
pub(super) const ADVERTISEMENT: u8 = 136;

/// Whoever receives one with less knows that it crossed a router.
const HOP_LIMIT: u8 = 255;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// The flag of an advertisement that replaces what is cached.
const OVERRIDE: [u8; 4] = [0x20, 0, 0, 0];
/// The option "target link-layer address": type, and length in units of eight bytes.
const TARGET_MAC: [u8; 2] = [2, 1];

/// Where the fields are in a frame.
pub(super) const NEXT_HEADER: usize = 20;
const HOP_LIMIT_AT: usize = 21;
const SOURCE_MAC: usize = 6;
const SOURCE: usize = 22;
pub(super) const TYPE: usize = 54;
const TARGET: usize = 62;
const OPTION: usize = 78;

/// A solicitation that claims nothing: its source is `::`.
pub(super) fn probe(mac: Mac, address: Ipv6Addr) -> Vec<u8> {
    let [.., a, b, c] = address.octets();
    let group = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c];
    let mut message = vec![SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
    message.extend(address.octets());
    frame(mac, Ipv6Addr::UNSPECIFIED, group.into(), message)
}

/// An advertisement that nobody asked for, and that replaces what is cached.
pub(super) fn announcement(mac: Mac, address: Ipv6Addr) -> Vec<u8> {
    let mut message = vec![ADVERTISEMENT, 0, 0, 0];
    message.extend(OVERRIDE);
    message.extend(address.octets());
    message.extend(TARGET_MAC);
    message.extend(mac);
    frame(mac, address, ALL_NODES, message)
}

fn frame(mac: Mac, source: Ipv6Addr, group: Ipv6Addr, mut message: Vec<u8>) -> Vec<u8> {
    let [.., a, b, c, d] = group.octets();
    let mut frame = ethernet([0x33, 0x33, a, b, c, d], mac, ETHERTYPE);
    let length = message.len() as u16;
    frame.extend([0x60, 0, 0, 0]);
    frame.extend(length.to_be_bytes());
    frame.extend([ICMPV6, HOP_LIMIT]);
    frame.extend(source.octets());
    frame.extend(group.octets());
    let checksum = checksum(&source, &group, &message);
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    frame.extend(message);
    frame
}

/// RFC 4443 2.3: over the pseudo-header of RFC 8200 8.1, and the message with a checksum of 0.
fn checksum(source: &Ipv6Addr, destination: &Ipv6Addr, message: &[u8]) -> u16 {
    let words = |bytes: &[u8]| -> u32 {
        let word =
            |pair: &[u8]| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |it| u32::from(*it));
        bytes.chunks(2).map(word).sum()
    };
    let mut sum = words(&source.octets()) + words(&destination.octets());
    sum += message.len() as u32 + u32::from(ICMPV6) + words(message);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// What a frame says about whose an address is.
pub(super) fn read(frame: &[u8]) -> Option<Claimed> {
    if frame.get(NEXT_HEADER) != Some(&ICMPV6) || frame.get(HOP_LIMIT_AT) != Some(&HOP_LIMIT) {
        return None;
    }
    let source = Ipv6Addr::from(bytes::<16>(frame, SOURCE)?);
    let target = Ipv6Addr::from(bytes::<16>(frame, TARGET)?);
    let source_mac = bytes(frame, SOURCE_MAC)?;
    let (mac, probing) = match *frame.get(TYPE)? {
        SOLICITATION if source.is_unspecified() => (source_mac, true),
        ADVERTISEMENT => {
            let option = bytes(frame, OPTION).filter(|option| *option == TARGET_MAC);
            let named = option.and_then(|_| bytes(frame, OPTION + 2));
            (named.unwrap_or(source_mac), false)
        }
        _ => return None,
    };
    Some(Claimed {
        address: IpAddr::V6(target),
        mac,
        probing,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: Mac = [2, 0, 0, 0, 0, 9];

    fn address() -> Ipv6Addr {
        "fd78::100".parse().unwrap()
    }

    #[test]
    fn an_announcement_claims_its_address() {
        let claimed = Claimed {
            address: address().into(),
            mac: MAC,
            probing: false,
        };
        assert_eq!(read(&announcement(MAC, address())), Some(claimed));
    }

    #[test]
    fn a_probe_only_asks_and_goes_to_the_solicited_node_group() {
        let frame = probe(MAC, address());
        assert!(read(&frame).unwrap().probing);
        assert_eq!(frame[..6], [0x33, 0x33, 0xff, 0, 1, 0]);
    }

    #[test]
    fn the_checksum_makes_the_sum_come_out_as_zero() {
        for frame in [probe(MAC, address()), announcement(MAC, address())] {
            let source = Ipv6Addr::from(bytes::<16>(&frame, SOURCE).unwrap());
            let destination = Ipv6Addr::from(bytes::<16>(&frame, SOURCE + 16).unwrap());
            assert_eq!(checksum(&source, &destination, &frame[TYPE..]), 0);
        }
    }

    #[test]
    fn what_crossed_a_router_says_nothing() {
        let mut frame = announcement(MAC, address());
        frame[HOP_LIMIT_AT] = 254;
        assert_eq!(read(&frame), None);
    }
}
