//! The headers before a UDP payload: read, and turned around.

use crate::checksum::Checksum;
use crate::frame::{Frame, Truncated};
use crate::headers::{
    ETHERTYPE_IPV4, ETHERTYPE_IPV6, IPV4_DESTINATION, IPV4_FRAGMENT, IPV4_HEADER, IPV4_PROTOCOL,
    IPV4_SOURCE, IPV6_DESTINATION, IPV6_HEADER, IPV6_NEXT_HEADER, IPV6_SOURCE, PROTOCOL_UDP,
    UDP_HEADER, read_ethernet, read_ipv6_address,
};
use crate::maps::Address;

const IPV4_MAX_OPTIONS: usize = 10;
/// More fragments, and the fragment offset.
const IPV4_IS_FRAGMENT: u16 = 0x3fff;
const IPV4_TTL: usize = 8;
const IPV4_CHECKSUM: usize = 10;
const IPV6_HOP_LIMIT: usize = 7;
const UDP_LENGTH: usize = 4;
const UDP_CHECKSUM: usize = 6;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ip {
    V4,
    V6,
}

/// Where a UDP datagram lies in its frame, and what its headers say.
pub(super) struct Datagram {
    ip: Ip,
    ip_offset: usize,
    udp_offset: usize,
    pub(super) source: Address,
    pub(super) destination: Address,
    pub(super) source_port: u16,
    pub(super) destination_port: u16,
    /// TTL or hop limit.
    pub(super) ttl: u8,
    /// Bytes of UDP payload that the UDP header announces. The frame may hold fewer.
    pub(super) length: usize,
}

impl Datagram {
    /// Reads Ethernet, up to two VLAN tags, IPv4 that is no fragment or IPv6 without extension
    /// headers, and UDP that fills it. `None`: the frame is something else.
    #[inline(always)]
    pub(super) fn read(frame: &Frame) -> Result<Option<Self>, Truncated> {
        let (ethertype, offset) = read_ethernet(frame)?;
        match ethertype {
            ETHERTYPE_IPV4 => Self::read_ipv4(frame, offset),
            ETHERTYPE_IPV6 => Self::read_ipv6(frame, offset),
            _ => Ok(None),
        }
    }

    #[inline(always)]
    fn read_ipv4(frame: &Frame, ip_offset: usize) -> Result<Option<Self>, Truncated> {
        let version_and_words: u8 = frame.read(ip_offset)?;
        let header = (version_and_words & 0xf) as usize * 4;
        let fragment = u16::from_be(frame.read(ip_offset + IPV4_FRAGMENT)?);
        let protocol: u8 = frame.read(ip_offset + IPV4_PROTOCOL)?;
        if version_and_words >> 4 != 4
            || header < IPV4_HEADER
            || fragment & IPV4_IS_FRAGMENT != 0
            || protocol != PROTOCOL_UDP
        {
            return Ok(None);
        }
        let total = u16::from_be(frame.read(ip_offset + 2)?) as usize;
        let source = Address::from_v4(frame.read(ip_offset + IPV4_SOURCE)?);
        let destination = Address::from_v4(frame.read(ip_offset + IPV4_DESTINATION)?);
        let ttl = frame.read(ip_offset + IPV4_TTL)?;
        let ip = (Ip::V4, ip_offset, ip_offset + header);
        Self::read_udp(
            frame,
            ip,
            total.saturating_sub(header),
            source,
            destination,
            ttl,
        )
    }

    #[inline(always)]
    fn read_ipv6(frame: &Frame, ip_offset: usize) -> Result<Option<Self>, Truncated> {
        let version: u8 = frame.read(ip_offset)?;
        let protocol: u8 = frame.read(ip_offset + IPV6_NEXT_HEADER)?;
        if version >> 4 != 6 || protocol != PROTOCOL_UDP {
            return Ok(None);
        }
        let ip_payload = u16::from_be(frame.read(ip_offset + 4)?) as usize;
        let source = read_ipv6_address(frame, ip_offset + IPV6_SOURCE)?;
        let destination = read_ipv6_address(frame, ip_offset + IPV6_DESTINATION)?;
        let ttl = frame.read(ip_offset + IPV6_HOP_LIMIT)?;
        let ip = (Ip::V6, ip_offset, ip_offset + IPV6_HEADER);
        Self::read_udp(frame, ip, ip_payload, source, destination, ttl)
    }

    #[inline(always)]
    fn read_udp(
        frame: &Frame,
        (ip, ip_offset, udp_offset): (Ip, usize, usize),
        ip_payload: usize,
        source: Address,
        destination: Address,
        ttl: u8,
    ) -> Result<Option<Self>, Truncated> {
        let source_port = u16::from_be(frame.read(udp_offset)?);
        let destination_port = u16::from_be(frame.read(udp_offset + 2)?);
        let udp_length = u16::from_be(frame.read(udp_offset + UDP_LENGTH)?) as usize;
        if udp_length < UDP_HEADER || udp_length != ip_payload {
            return Ok(None);
        }
        let length = udp_length - UDP_HEADER;
        Ok(Some(Self {
            ip,
            ip_offset,
            udp_offset,
            source,
            destination,
            source_port,
            destination_port,
            ttl,
            length,
        }))
    }

    /// Offset of the UDP payload in the frame.
    #[inline(always)]
    pub(super) const fn payload(&self) -> usize {
        self.udp_offset + UDP_HEADER
    }

    /// Sends the datagram back where it came from: swaps MACs, addresses and ports, sets the hop
    /// limit, and computes the checksums afresh. `payload` sums the UDP payload as it is by now.
    #[inline(always)]
    pub(super) fn turn_around(
        &self,
        frame: &mut Frame,
        hop_limit: u8,
        payload: Checksum,
    ) -> Result<(), Truncated> {
        swap_macs(frame)?;
        let mut sum = payload;
        match self.ip {
            Ip::V4 => {
                let (source, destination) = (
                    self.ip_offset + IPV4_SOURCE,
                    self.ip_offset + IPV4_DESTINATION,
                );
                let (from, to): (u32, u32) = (frame.read(source)?, frame.read(destination)?);
                frame.write(source, to)?;
                frame.write(destination, from)?;
                sum.add_u32(from);
                sum.add_u32(to);
                frame.write(self.ip_offset + IPV4_TTL, hop_limit)?;
                self.write_ipv4_checksum(frame)?;
            }
            Ip::V6 => {
                for half in [0, 8] {
                    let source = self.ip_offset + IPV6_SOURCE + half;
                    let destination = self.ip_offset + IPV6_DESTINATION + half;
                    let (from, to): (u64, u64) = (frame.read(source)?, frame.read(destination)?);
                    frame.write(source, to)?;
                    frame.write(destination, from)?;
                    sum.add_u64(from);
                    sum.add_u64(to);
                }
                frame.write(self.ip_offset + IPV6_HOP_LIMIT, hop_limit)?;
            }
        }
        let udp_length = ((self.length + UDP_HEADER) as u16).to_be();
        frame.write(self.udp_offset, self.destination_port.to_be())?;
        frame.write(self.udp_offset + 2, self.source_port.to_be())?;
        sum.add_u16(u16::from(PROTOCOL_UDP).to_be());
        sum.add_u16(udp_length);
        sum.add_u16(self.destination_port.to_be());
        sum.add_u16(self.source_port.to_be());
        sum.add_u16(udp_length);
        frame.write(self.udp_offset + UDP_CHECKSUM, sum.finish_udp())
    }

    #[inline(always)]
    fn write_ipv4_checksum(&self, frame: &mut Frame) -> Result<(), Truncated> {
        frame.write(self.ip_offset + IPV4_CHECKSUM, 0_u16)?;
        let mut sum = Checksum::new();
        sum.add_u64(frame.read(self.ip_offset)?);
        sum.add_u64(frame.read(self.ip_offset + 8)?);
        sum.add_u32(frame.read(self.ip_offset + 16)?);
        let options = self.ip_offset + IPV4_HEADER;
        for index in 0..IPV4_MAX_OPTIONS {
            if options + index * 4 >= self.udp_offset {
                break;
            }
            sum.add_u32(frame.read(options + index * 4)?);
        }
        frame.write(self.ip_offset + IPV4_CHECKSUM, sum.finish())
    }
}

#[inline(always)]
fn swap_macs(frame: &mut Frame) -> Result<(), Truncated> {
    let (destination, source): (u32, u32) = (frame.read(0)?, frame.read(6)?);
    let (destination_end, source_end): (u16, u16) = (frame.read(4)?, frame.read(10)?);
    frame.write(0, source)?;
    frame.write(4, source_end)?;
    frame.write(6, destination)?;
    frame.write(10, destination_end)
}
