//! Whose tunnel a packet belongs to.

use super::LinkLayer;
use crate::frame::{Frame, Truncated};
use crate::headers::{
    ETHERTYPE_IPV4, ETHERTYPE_IPV6, IPV4_DESTINATION, IPV4_FRAGMENT, IPV4_HEADER, IPV4_PROTOCOL,
    IPV4_SOURCE, IPV6_DESTINATION, IPV6_SOURCE, Ipv6Payload, PROTOCOL_UDP, UDP_HEADER,
    read_ipv6_address,
};
use crate::maps::{Address, Encapsulation, NO_VNI, Switch, TunnelConfig, TunnelKey};

const PROTOCOL_IPIP: u8 = 4;
const PROTOCOL_SIT: u8 = 41;
const PROTOCOL_GRE: u8 = 47;
/// The fragment offset within the two bytes that hold it in an IPv4 header.
const IPV4_FRAGMENT_OFFSET: u16 = 0x1fff;
/// Where in the headers of VXLAN and Geneve the VNI is, and how far up in its word.
const VNI: usize = 4;
const VNI_SHIFT: u32 = 8;

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// From the peer to this node.
    Received,
    /// From this node to the peer.
    Sent,
}

/// Which UDP ports are tunnels'.
pub trait Ports {
    /// What a UDP packet between these ports carries, if it is a tunnel's.
    fn udp_tunnel(&self, source: u16, destination: u16) -> Option<Encapsulation>;
    /// Whether the VNIs of VXLAN and Geneve are told apart.
    fn per_vni(&self) -> bool;
}

impl Ports for TunnelConfig {
    fn udp_tunnel(&self, source: u16, destination: u16) -> Option<Encapsulation> {
        Self::udp_tunnel(self, source, destination)
    }

    fn per_vni(&self) -> bool {
        matches!(self.per_vni, Switch::On)
    }
}

/// A packet of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelPacket {
    /// The tunnel's other end.
    pub key: TunnelKey,
    /// Where the outer IP header and its extensions end in the frame.
    pub payload: usize,
}

/// What the outer IP header says.
struct Outer {
    peer: Address,
    protocol: u8,
    payload: usize,
    later_fragment: bool,
}

impl TunnelPacket {
    /// Reads a packet that begins with this link layer's header. `None`: it is no tunnel's.
    ///
    /// # Errors
    /// It ends before that can be told.
    #[inline(always)]
    pub fn read(
        frame: &Frame,
        link: LinkLayer,
        direction: Direction,
        ports: &impl Ports,
    ) -> Result<Option<Self>, Truncated> {
        let (ethertype, offset) = link.read(frame)?;
        let outer = match ethertype {
            ETHERTYPE_IPV4 => read_ipv4(frame, offset, direction)?,
            ETHERTYPE_IPV6 => Some(read_ipv6(frame, offset, direction)?),
            _ => None,
        };
        let Some(outer) = outer else {
            return Ok(None);
        };
        let (encapsulation, vni) = match outer.protocol {
            PROTOCOL_UDP if !outer.later_fragment => match read_udp(frame, &outer, ports)? {
                Some(found) => found,
                None => return Ok(None),
            },
            PROTOCOL_IPIP => (Encapsulation::Ipip, NO_VNI),
            PROTOCOL_SIT => (Encapsulation::Sit, NO_VNI),
            PROTOCOL_GRE => (Encapsulation::Gre, NO_VNI),
            _ => return Ok(None),
        };
        Ok(Some(Self {
            key: TunnelKey {
                address: outer.peer.octets(),
                vni,
                encapsulation,
            },
            payload: outer.payload,
        }))
    }
}

#[inline(always)]
fn read_ipv4(
    frame: &Frame,
    offset: usize,
    direction: Direction,
) -> Result<Option<Outer>, Truncated> {
    let version_and_words: u8 = frame.read(offset)?;
    let header = (version_and_words & 0xf) as usize * 4;
    if version_and_words >> 4 != 4 || header < IPV4_HEADER {
        return Ok(None);
    }
    let peer = match direction {
        Direction::Received => IPV4_SOURCE,
        Direction::Sent => IPV4_DESTINATION,
    };
    let fragment = u16::from_be(frame.read(offset + IPV4_FRAGMENT)?);
    Ok(Some(Outer {
        peer: Address::from_v4(frame.read(offset + peer)?),
        protocol: frame.read(offset + IPV4_PROTOCOL)?,
        payload: offset + header,
        later_fragment: fragment & IPV4_FRAGMENT_OFFSET != 0,
    }))
}

#[inline(always)]
fn read_ipv6(frame: &Frame, offset: usize, direction: Direction) -> Result<Outer, Truncated> {
    let peer = match direction {
        Direction::Received => IPV6_SOURCE,
        Direction::Sent => IPV6_DESTINATION,
    };
    let peer = read_ipv6_address(frame, offset + peer)?;
    let payload = Ipv6Payload::read(frame, offset)?;
    Ok(Outer {
        peer,
        protocol: payload.protocol,
        payload: payload.offset,
        later_fragment: payload.later_fragment,
    })
}

/// What a UDP packet carries, and in which network, if it is a tunnel's.
#[inline(always)]
fn read_udp(
    frame: &Frame,
    outer: &Outer,
    ports: &impl Ports,
) -> Result<Option<(Encapsulation, u32)>, Truncated> {
    let udp = frame.behind(outer.payload);
    let source = u16::from_be(udp.read(0)?);
    let destination = u16::from_be(udp.read(2)?);
    let Some(encapsulation) = ports.udp_tunnel(source, destination) else {
        return Ok(None);
    };
    let has_vni = matches!(encapsulation, Encapsulation::Vxlan | Encapsulation::Geneve);
    let vni = if has_vni && ports.per_vni() {
        // One that ends before its VNI belongs to the peer all the same.
        udp.read(UDP_HEADER + VNI)
            .map_or(NO_VNI, |word| u32::from_be(word) >> VNI_SHIFT)
    } else {
        NO_VNI
    };
    Ok(Some((encapsulation, vni)))
}
