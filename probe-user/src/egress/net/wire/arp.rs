//! ARP on Ethernet for IPv4.

use std::net::{IpAddr, Ipv4Addr};

use super::{BROADCAST, Claimed, Mac, bytes, ethernet};

pub(super) const ETHERTYPE: u16 = 0x0806;

/// Hardware type Ethernet, protocol type IPv4, and the lengths of their addresses.
const ETHERNET_IPV4: [u8; 6] = [0, 1, 8, 0, 6, 4];
const REQUEST: [u8; 2] = [0, 1];

/// Where the fields are in a frame.
const TYPES: usize = 14;
const SENDER_MAC: usize = 22;
const SENDER_ADDRESS: usize = 28;
const TARGET_ADDRESS: usize = 38;

/// A request that claims nothing: its sender's address is 0.
pub(super) fn probe(mac: Mac, address: Ipv4Addr) -> Vec<u8> {
    request(mac, Ipv4Addr::UNSPECIFIED, address)
}

/// A request that claims its own target.
pub(super) fn announcement(mac: Mac, address: Ipv4Addr) -> Vec<u8> {
    request(mac, address, address)
}

fn request(mac: Mac, sender: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let mut frame = ethernet(BROADCAST, mac, ETHERTYPE);
    frame.extend(ETHERNET_IPV4);
    frame.extend(REQUEST);
    frame.extend(mac);
    frame.extend(sender.octets());
    frame.extend([0; 6]);
    frame.extend(target.octets());
    frame
}

/// What a frame says about whose an address is.
pub(super) fn read(frame: &[u8]) -> Option<Claimed> {
    if bytes(frame, TYPES)? != ETHERNET_IPV4 {
        return None;
    }
    let mac = bytes(frame, SENDER_MAC)?;
    let sender = Ipv4Addr::from(bytes::<4>(frame, SENDER_ADDRESS)?);
    let target = Ipv4Addr::from(bytes::<4>(frame, TARGET_ADDRESS)?);
    let probing = sender.is_unspecified();
    let address = if probing { target } else { sender };
    Some(Claimed {
        address: IpAddr::V4(address),
        mac,
        probing,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: Mac = [2, 0, 0, 0, 0, 9];
    const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 100);

    #[test]
    fn an_announcement_claims_its_address() {
        let claimed = Claimed {
            address: ADDRESS.into(),
            mac: MAC,
            probing: false,
        };
        assert_eq!(read(&announcement(MAC, ADDRESS)), Some(claimed));
    }

    #[test]
    fn a_probe_only_asks() {
        let claimed = read(&probe(MAC, ADDRESS)).unwrap();
        assert!(claimed.probing);
        assert_eq!(claimed.address, IpAddr::V4(ADDRESS));
    }

    #[test]
    fn a_frame_that_is_cut_says_nothing() {
        let frame = announcement(MAC, ADDRESS);
        for length in 0..frame.len() {
            assert_eq!(read(&frame[..length]), None, "{length} bytes");
        }
    }
}
