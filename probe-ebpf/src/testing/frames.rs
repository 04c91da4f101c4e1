//! Frames, built and taken apart by the etherparse crate, which knows nothing of this one.

use std::net::{IpAddr, SocketAddr};
use std::vec::Vec;

use etherparse::{
    IpFragOffset, IpHeaders, IpNumber, Ipv4Header, Ipv6Header, NetSlice, PacketBuilder,
    PacketBuilderStep, SlicedPacket, TransportSlice, VlanId,
};

use super::node::{HostNode, SOURCE_V4};
use crate::wire::PROBE_PORT;

const SOURCE_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const DESTINATION_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// What a frame is made of.
#[derive(Clone, Debug)]
pub struct FrameSpec {
    /// VLAN tags: 0, 1 or 2.
    pub vlan_tags: usize,
    /// Where the datagram comes from.
    pub source: SocketAddr,
    /// Where it goes.
    pub destination: SocketAddr,
    /// TTL or hop limit.
    pub ttl: u8,
    /// IPv4 options, a multiple of four bytes.
    pub options: Vec<u8>,
    /// IPv4 fragment offset in units of eight bytes.
    pub fragment_offset: u16,
    /// IPv4 flag "more fragments".
    pub more_fragments: bool,
    /// UDP payload.
    pub payload: Vec<u8>,
}

impl FrameSpec {
    /// A datagram to the test node's probe port over IPv4, without anything special.
    pub fn new(payload: &[u8]) -> Self {
        Self {
            vlan_tags: 0,
            source: SocketAddr::new(SOURCE_V4.into(), 50_000),
            destination: SocketAddr::new(HostNode::address(SOURCE_V4.into()), PROBE_PORT),
            ttl: 61,
            options: Vec::new(),
            fragment_offset: 0,
            more_fragments: false,
            payload: payload.to_vec(),
        }
    }

    /// The same from another address, to the node's address of that family.
    pub fn from_address(mut self, address: impl Into<IpAddr>) -> Self {
        let address = address.into();
        self.source.set_ip(address);
        self.destination.set_ip(HostNode::address(address));
        self
    }

    /// The same to another port.
    pub fn to_port(mut self, port: u16) -> Self {
        self.destination.set_port(port);
        self
    }

    fn ip_headers(&self) -> IpHeaders {
        match (self.source.ip(), self.destination.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let mut header = Ipv4Header::new(
                    0,
                    self.ttl,
                    IpNumber::UDP,
                    source.octets(),
                    destination.octets(),
                )
                .unwrap();
                header.options = self.options.as_slice().try_into().unwrap();
                header.fragment_offset = IpFragOffset::try_new(self.fragment_offset).unwrap();
                header.more_fragments = self.more_fragments;
                IpHeaders::Ipv4(header, Default::default())
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let header = Ipv6Header {
                    hop_limit: self.ttl,
                    source: source.octets(),
                    destination: destination.octets(),
                    ..Default::default()
                };
                IpHeaders::Ipv6(header, Default::default())
            }
            _ => panic!("source and destination are of different families"),
        }
    }

    /// The frame's bytes.
    pub fn build(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.ip()
            .udp(self.source.port(), self.destination.port())
            .write(&mut bytes, &self.payload)
            .unwrap();
        bytes
    }

    /// The bytes of a frame whose IP payload, of this protocol, is `payload` without a UDP header.
    pub fn build_ip(&self, protocol: u8) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.ip()
            .write(&mut bytes, IpNumber(protocol), &self.payload)
            .unwrap();
        bytes
    }

    fn ip(&self) -> PacketBuilderStep<IpHeaders> {
        let ethernet = PacketBuilder::ethernet2(SOURCE_MAC, DESTINATION_MAC);
        let (inner, outer) = (VlanId::try_new(77).unwrap(), VlanId::try_new(1077).unwrap());
        match self.vlan_tags {
            0 => ethernet.ip(self.ip_headers()),
            1 => ethernet.single_vlan(inner).ip(self.ip_headers()),
            _ => ethernet.double_vlan(outer, inner).ip(self.ip_headers()),
        }
    }
}

/// A frame with a probe, signed with the node's current key.
pub fn probe_frame() -> FrameSpec {
    FrameSpec::new(&super::request().encode(&HostNode::current_key()).to_bytes())
}

/// Checks that `reply` is `request` turned around, with right checksums and this hop limit, and
/// returns its UDP payload.
pub fn assert_reply(request: &FrameSpec, reply: &[u8], hop_limit: u8) -> Vec<u8> {
    let sent = request.build();
    assert_eq!(reply.len(), sent.len(), "a reply is as long as its request");
    assert_eq!(
        (&reply[..6], &reply[6..12]),
        (&sent[6..12], &sent[..6]),
        "MACs are swapped"
    );
    let packet = SlicedPacket::from_ethernet(reply).expect("a reply is a well-formed packet");
    assert_eq!(packet.vlan_ids().len(), request.vlan_tags, "VLAN tags stay");
    let (source, destination) = addresses_of(&packet, &request.options, hop_limit);
    let Some(TransportSlice::Udp(udp)) = packet.transport else {
        panic!("not UDP")
    };
    assert_eq!(
        SocketAddr::new(source, udp.source_port()),
        request.destination
    );
    assert_eq!(
        SocketAddr::new(destination, udp.destination_port()),
        request.source
    );
    let header = udp.to_header();
    let checksum = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            header.calc_checksum_ipv4_raw(source.octets(), destination.octets(), udp.payload())
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            header.calc_checksum_ipv6_raw(source.octets(), destination.octets(), udp.payload())
        }
        _ => panic!("source and destination are of different families"),
    };
    assert_eq!(udp.checksum(), checksum.unwrap(), "UDP checksum");
    udp.payload().to_vec()
}

fn addresses_of(packet: &SlicedPacket, options: &[u8], hop_limit: u8) -> (IpAddr, IpAddr) {
    match packet.net.as_ref().expect("a network header") {
        NetSlice::Ipv4(ip) => {
            let header = ip.header();
            assert_eq!(
                header.header_checksum(),
                header.to_header().calc_header_checksum()
            );
            assert_eq!(header.ttl(), hop_limit);
            assert_eq!(header.options(), options, "IPv4 options stay");
            (
                header.source_addr().into(),
                header.destination_addr().into(),
            )
        }
        NetSlice::Ipv6(ip) => {
            let header = ip.header();
            assert_eq!(header.hop_limit(), hop_limit);
            (
                header.source_addr().into(),
                header.destination_addr().into(),
            )
        }
        NetSlice::Arp(_) => panic!("ARP"),
    }
}
