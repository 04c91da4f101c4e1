//! What a packet is on the wire.
//!
//! The kernel handles many TCP segments, or UDP datagrams, as one large packet, and cuts it up, or
//! lets the network card do so, only behind the hooks where programs run (GSO); what it receives it
//! may put together (GRO). Each piece repeats all headers, from the Ethernet header to the innermost
//! TCP or UDP header.

use crate::frame::{Frame, Truncated};
use crate::headers::{
    ETHERTYPE_IPV4, ETHERTYPE_IPV6, IPV4_PROTOCOL, IPV6_HEADER, IPV6_NEXT_HEADER, PROTOCOL_UDP,
    UDP_HEADER, ethertype_of, read_ethernet,
};
use crate::maps::Encapsulation;

/// Of VXLAN, and of Geneve without options.
const TUNNEL_HEADER: usize = 8;
/// The length of Geneve's options, in units of four bytes.
const GENEVE_OPTIONS: u8 = 0x3f;
const GENEVE_PROTOCOL: usize = 2;
/// GRE's flags: checksum, key and sequence number are there, four bytes each.
const GRE_FLAGS: [u16; 3] = [0x8000, 0x2000, 0x1000];
const GRE_HEADER: usize = 4;
/// Ethernet frames in Geneve and GRE.
const ETHERTYPE_BRIDGING: u16 = 0x6558;
const PROTOCOL_TCP: u8 = 6;
const TCP_DATA_OFFSET: usize = 12;

/// A packet's length, and how the kernel will cut it up, or has put it together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    /// Bytes of the whole packet.
    pub length: u32,
    /// Bytes that every piece has beside the packet: a VLAN tag that is kept outside.
    pub beside: u32,
    /// How many pieces; 0 and 1: it is one packet, or nobody has counted.
    pub count: u32,
    /// Bytes behind the headers in each piece but the last, which may have fewer; 0: it is one
    /// packet.
    pub size: u32,
}

/// Packets, and their bytes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wire {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Segments {
    /// Whether the headers' length is needed to tell what it is on the wire.
    #[inline(always)]
    pub const fn are_many(&self) -> bool {
        self.size != 0
    }

    /// What goes over the wire, if the pieces' headers have this length.
    #[inline(always)]
    pub const fn on_the_wire(&self, headers: usize) -> Wire {
        if self.size == 0 {
            return Wire {
                packets: 1,
                bytes: (self.length + self.beside) as u64,
            };
        }
        let payload = self.length.saturating_sub(headers as u32);
        let counted = if self.count > 1 {
            self.count
        } else {
            payload.div_ceil(self.size)
        };
        let packets = if counted == 0 { 1 } else { counted as u64 };
        Wire {
            packets,
            bytes: self.length as u64
                + (packets - 1) * headers as u64
                + packets * self.beside as u64,
        }
    }
}

/// Inner headers: where they begin, and with what.
struct Inner {
    offset: usize,
    ethertype: u16,
}

/// The length of all headers that each piece of a large packet repeats, whose outer IP header ends at
/// `payload`. Headers of a kind that is not known count as what they carry.
///
/// # Errors
/// The packet ends before.
#[inline(always)]
pub fn headers(
    frame: &Frame,
    payload: usize,
    encapsulation: Encapsulation,
) -> Result<usize, Truncated> {
    let Some(inner) = Inner::read(frame, payload, encapsulation)? else {
        return Ok(payload + UDP_HEADER);
    };
    let inner = match inner.ethertype {
        ETHERTYPE_BRIDGING => {
            let (ethertype, length) = read_ethernet(&frame.behind(inner.offset))?;
            Inner {
                offset: inner.offset + length,
                ethertype,
            }
        }
        _ => inner,
    };
    let ip = frame.behind(inner.offset);
    let (protocol, length) = match inner.ethertype {
        ETHERTYPE_IPV4 => {
            let words: u8 = ip.read(0)?;
            (ip.read(IPV4_PROTOCOL)?, (words & 0xf) as usize * 4)
        }
        ETHERTYPE_IPV6 => (ip.read(IPV6_NEXT_HEADER)?, IPV6_HEADER),
        _ => return Ok(inner.offset),
    };
    let offset = inner.offset + length;
    match protocol {
        PROTOCOL_TCP => {
            let words: u8 = frame.behind(offset).read(TCP_DATA_OFFSET)?;
            Ok(offset + (words >> 4) as usize * 4)
        }
        PROTOCOL_UDP => Ok(offset + UDP_HEADER),
        _ => Ok(offset),
    }
}

impl Inner {
    /// `None`: what it carries is encrypted.
    #[inline(always)]
    fn read(
        frame: &Frame,
        payload: usize,
        encapsulation: Encapsulation,
    ) -> Result<Option<Self>, Truncated> {
        let outer = frame.behind(payload);
        let inner = |length: usize, ethertype: u16| Self {
            offset: payload + length,
            ethertype,
        };
        Ok(Some(match encapsulation {
            Encapsulation::WireGuard => return Ok(None),
            Encapsulation::Vxlan => inner(UDP_HEADER + TUNNEL_HEADER, ETHERTYPE_BRIDGING),
            Encapsulation::Geneve => {
                let options: u8 = outer.read(UDP_HEADER)?;
                let options = (options & GENEVE_OPTIONS) as usize * 4;
                let ethertype = u16::from_be(outer.read(UDP_HEADER + GENEVE_PROTOCOL)?);
                inner(UDP_HEADER + TUNNEL_HEADER + options, ethertype)
            }
            Encapsulation::Gre => {
                let flags = u16::from_be(outer.read(0)?);
                let mut length = GRE_HEADER;
                for flag in GRE_FLAGS {
                    if flags & flag != 0 {
                        length += 4;
                    }
                }
                inner(length, u16::from_be(outer.read(2)?))
            }
            Encapsulation::Ipip | Encapsulation::Sit => {
                let version: u8 = outer.read(0)?;
                inner(0, ethertype_of(version >> 4))
            }
        }))
    }
}
