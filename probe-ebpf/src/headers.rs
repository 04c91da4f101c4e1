//! What the reflector and the fence both know of headers.

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

pub(crate) const IPV4_SOURCE: usize = 12;
pub(crate) const IPV6_NEXT_HEADER: usize = 6;
pub(crate) const IPV6_SOURCE: usize = 8;
pub(crate) const IPV6_HEADER: usize = 40;

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
