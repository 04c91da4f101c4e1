//! What the reflector, the fence and the tunnel counters all know of headers.

use crate::frame::{Frame, Truncated};
use crate::maps::Address;

const ETHERTYPE: usize = 12;
const VLAN: u16 = 0x8100;
const QINQ: u16 = 0x88a8;
const VLAN_TAG: usize = 4;
const MAX_VLAN_TAGS: usize = 2;

pub(crate) const ETHERTYPE_IPV4: u16 = 0x0800;
pub(crate) const ETHERTYPE_ARP: u16 = 0x0806;
pub(crate) const ETHERTYPE_IPV6: u16 = 0x86dd;

pub(crate) const IPV4_HEADER: usize = 20;
/// Flags and fragment offset.
pub(crate) const IPV4_FRAGMENT: usize = 6;
pub(crate) const IPV4_PROTOCOL: usize = 9;
pub(crate) const IPV4_SOURCE: usize = 12;
pub(crate) const IPV4_DESTINATION: usize = 16;
pub(crate) const IPV6_NEXT_HEADER: usize = 6;
pub(crate) const IPV6_SOURCE: usize = 8;
pub(crate) const IPV6_DESTINATION: usize = 24;
pub(crate) const IPV6_HEADER: usize = 40;

pub(crate) const PROTOCOL_UDP: u8 = 17;
pub(crate) const UDP_HEADER: usize = 8;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;
/// Extension headers that are looked behind.
const MAX_EXTENSIONS: usize = 4;
/// The fragment offset within the two bytes that hold it in an IPv6 fragment header.
const FRAGMENT_OFFSET: u16 = 0xfff8;

/// What comes before a packet's network header on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkLayer {
    /// Ethernet, with up to two VLAN tags. A tag that the kernel keeps beside the packet is not in
    /// it.
    Ethernet,
    /// Nothing: tunnels and the like.
    None,
}

impl LinkLayer {
    /// What a received packet really begins with on a device of this link layer, if the kernel calls
    /// its protocol `protocol` (in packet byte order). Since 6.9 a packet that generic XDP had to copy
    /// comes to TCX without its Ethernet header, whose length is not copied along
    /// (<https://git.kernel.org/torvalds/c/e6d5dbdd20aa>).
    #[inline(always)]
    pub fn received(self, frame: &Frame, protocol: u16) -> Self {
        let is_ethernet = |ethertype: u16| {
            let host = u16::from_be(ethertype);
            ethertype == protocol || host == VLAN || host == QINQ
        };
        match frame.read(ETHERTYPE) {
            Ok(ethertype) if !is_ethernet(ethertype) => Self::None,
            _ => self,
        }
    }

    /// Reads what comes before the network header: the ethertype of what follows, and its offset.
    #[inline(always)]
    pub(crate) fn read(self, frame: &Frame) -> Result<(u16, usize), Truncated> {
        match self {
            Self::Ethernet => read_ethernet(frame),
            Self::None => Ok((ethertype_of(frame.read::<u8>(0)? >> 4), 0)),
        }
    }
}

/// Reads Ethernet and up to two VLAN tags: the type and offset of what follows.
#[inline(always)]
pub(crate) fn read_ethernet(frame: &Frame) -> Result<(u16, usize), Truncated> {
    let mut offset = ETHERTYPE;
    let mut ethertype = u16::from_be(frame.read(offset)?);
    for _ in 0..MAX_VLAN_TAGS {
        if ethertype == VLAN || ethertype == QINQ {
            offset += VLAN_TAG;
            ethertype = u16::from_be(frame.read(offset)?);
        }
    }
    Ok((ethertype, offset + size_of::<u16>()))
}

#[inline(always)]
pub(crate) fn read_ipv6_address(frame: &Frame, offset: usize) -> Result<Address, Truncated> {
    Ok(Address::from_words(
        frame.read(offset)?,
        frame.read(offset + 8)?,
    ))
}

/// The ethertype of an IP packet of this version; 0 if there is none such.
#[inline(always)]
pub(crate) const fn ethertype_of(ip_version: u8) -> u16 {
    match ip_version {
        4 => ETHERTYPE_IPV4,
        6 => ETHERTYPE_IPV6,
        _ => 0,
    }
}

/// What an IPv6 packet carries.
pub(crate) struct Ipv6Payload {
    pub(crate) protocol: u8,
    /// Where it begins in the frame.
    pub(crate) offset: usize,
    /// Whether it is the middle or the end of something larger.
    pub(crate) later_fragment: bool,
}

impl Ipv6Payload {
    /// Looks behind the extension headers of the packet at `ip_offset`.
    #[inline(always)]
    pub(crate) fn read(frame: &Frame, ip_offset: usize) -> Result<Self, Truncated> {
        let mut payload = Self {
            protocol: frame.read(ip_offset + IPV6_NEXT_HEADER)?,
            offset: ip_offset + IPV6_HEADER,
            later_fragment: false,
        };
        for _ in 0..MAX_EXTENSIONS {
            if payload.later_fragment || !is_extension(payload.protocol) {
                break;
            }
            let head = frame.behind(payload.offset).read::<u64>(0)?.to_ne_bytes();
            let length = head[1] as usize;
            payload.offset += match payload.protocol {
                AUTHENTICATION => (length + 2) * 4,
                FRAGMENT => 8,
                _ => (length + 1) * 8,
            };
            payload.later_fragment = payload.protocol == FRAGMENT
                && u16::from_be_bytes([head[2], head[3]]) & FRAGMENT_OFFSET != 0;
            payload.protocol = head[0];
        }
        Ok(payload)
    }
}

#[inline(always)]
const fn is_extension(next_header: u8) -> bool {
    matches!(
        next_header,
        HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION_OPTIONS
    )
}
