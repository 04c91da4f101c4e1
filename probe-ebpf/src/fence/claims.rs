//! Which addresses a packet claims to be the node's.

use crate::frame::{Frame, Truncated};
pub use crate::headers::LinkLayer;
use crate::headers::{
    ETHERTYPE_ARP, ETHERTYPE_IPV4, ETHERTYPE_IPV6, IPV4_SOURCE, IPV6_SOURCE, Ipv6Payload,
    read_ipv6_address,
};
use crate::maps::Address;

const ARP_PROTOCOL: usize = 2;
const ARP_HARDWARE_LENGTH: usize = 4;
const ARP_PROTOCOL_LENGTH: usize = 5;
const ARP_SENDER_HARDWARE: usize = 8;

const ICMPV6: u8 = 58;
const NEIGHBOUR_SOLICITATION: u8 = 135;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;

/// What a packet is, as far as the fence tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4.
    Ipv4,
    /// IPv6 other than [`Family::Nd`].
    Ipv6,
    /// ARP.
    Arp,
    /// Neighbour solicitations and advertisements.
    Nd,
}

/// The addresses that a packet claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claims {
    /// What the packet is.
    pub family: Family,
    /// From where it is sent; of ARP, the sender's protocol address.
    pub source: Option<Address>,
    /// Of which address it says that the node has it: the target of a neighbour advertisement.
    pub target: Option<Address>,
    /// Whether the packet ended before all was read that it should have had.
    pub truncated: bool,
}

impl Claims {
    /// A packet that claims nothing.
    const NONE: Self = Self::new(Family::Ipv4, None);

    #[inline(always)]
    const fn new(family: Family, source: Option<Address>) -> Self {
        Self {
            family,
            source,
            target: None,
            truncated: false,
        }
    }

    /// Reads a packet's claims, as far as it goes.
    #[inline(always)]
    pub fn read(frame: &Frame, link: LinkLayer) -> Self {
        match Self::try_read(frame, link) {
            Ok(claims) => claims,
            Err(Truncated) => Self {
                truncated: true,
                ..Self::NONE
            },
        }
    }

    #[inline(always)]
    fn try_read(frame: &Frame, link: LinkLayer) -> Result<Self, Truncated> {
        let (ethertype, offset) = link.read(frame)?;
        match ethertype {
            ETHERTYPE_IPV4 => {
                let source = Address::from_v4(frame.read(offset + IPV4_SOURCE)?);
                Ok(Self::new(Family::Ipv4, Some(source)))
            }
            ETHERTYPE_IPV6 => Self::read_ipv6(frame, offset),
            ETHERTYPE_ARP => Self::read_arp(frame, offset),
            _ => Ok(Self::NONE),
        }
    }

    #[inline(always)]
    fn read_arp(frame: &Frame, offset: usize) -> Result<Self, Truncated> {
        let protocol = u16::from_be(frame.read(offset + ARP_PROTOCOL)?);
        let hardware_length: u8 = frame.read(offset + ARP_HARDWARE_LENGTH)?;
        let protocol_length: u8 = frame.read(offset + ARP_PROTOCOL_LENGTH)?;
        if protocol != ETHERTYPE_IPV4 || protocol_length != 4 {
            return Ok(Self::NONE);
        }
        let sender = frame.behind(offset + ARP_SENDER_HARDWARE + hardware_length as usize);
        let source = Address::from_v4(sender.read(0)?);
        Ok(Self::new(Family::Arp, Some(source)))
    }

    #[inline(always)]
    fn read_ipv6(frame: &Frame, offset: usize) -> Result<Self, Truncated> {
        let source = read_ipv6_address(frame, offset + IPV6_SOURCE)?;
        let mut claims = Self::new(Family::Ipv6, Some(source));
        match claims.read_nd(frame, offset) {
            Ok(()) => {}
            // The source counts all the same.
            Err(Truncated) => claims.truncated = true,
        }
        Ok(claims)
    }

    /// Looks behind the extension headers for neighbour discovery.
    #[inline(always)]
    fn read_nd(&mut self, frame: &Frame, offset: usize) -> Result<(), Truncated> {
        let payload = Ipv6Payload::read(frame, offset)?;
        if payload.later_fragment || payload.protocol != ICMPV6 {
            return Ok(());
        }
        let [head, high, low] = frame.behind(payload.offset).read::<[u64; 3]>(0)?;
        match head.to_ne_bytes()[0] {
            NEIGHBOUR_SOLICITATION => self.family = Family::Nd,
            NEIGHBOUR_ADVERTISEMENT => {
                self.family = Family::Nd;
                self.target = Some(Address::from_words(high, low));
            }
            _ => {}
        }
        Ok(())
    }
}
