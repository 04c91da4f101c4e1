//! The table of the tunnel counters: packets, and whose tunnel they have to be counted for.

use std::format;
use std::net::{IpAddr, SocketAddr};
use std::string::String;
use std::vec;
use std::vec::Vec;

use super::frames::FrameSpec;
use super::node::{HostNode, SOURCE_V4, SOURCE_V6};
use crate::maps::{DEFAULT_TUNNEL_PORTS, Encapsulation, NO_VNI, Switch, TunnelConfig, TunnelKey};
use crate::tunnel::{Direction, LinkLayer};

pub(super) const ETHERNET_HEADER: usize = 14;
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const UDP_HEADER: usize = 8;
const VNI: u32 = 0x12_3456;
pub(super) const UDP: u8 = 17;
pub(super) const TCP: u8 = 6;
pub(super) const BRIDGING: [u8; 2] = [0x65, 0x58];
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;

/// The default ports, with or without telling VNIs apart.
pub fn tunnel_config(per_vni: bool) -> TunnelConfig {
    TunnelConfig {
        per_vni: Switch::from(per_vni),
        ..TunnelConfig::new(DEFAULT_TUNNEL_PORTS)
    }
}

/// One row: a packet.
pub struct TunnelCase {
    /// What is special about the packet.
    pub name: String,
    /// The packet, from its link layer's header on.
    pub frame: Vec<u8>,
    /// What comes first in it.
    pub link: LinkLayer,
    source: IpAddr,
    /// As what it has to be counted, and in which network.
    tunnel: Option<(Encapsulation, u32)>,
}

impl TunnelCase {
    /// For whom it has to be counted, if for anybody.
    pub fn expected(&self, direction: Direction, per_vni: bool) -> Option<TunnelKey> {
        let (encapsulation, vni) = self.tunnel?;
        let peer = match direction {
            Direction::Received => self.source,
            Direction::Sent => HostNode::address(self.source),
        };
        Some(TunnelKey {
            address: mapped(peer),
            vni: if per_vni { vni } else { NO_VNI },
            encapsulation,
        })
    }
}

/// All packets, for the default ports.
pub fn tunnel_cases() -> Vec<TunnelCase> {
    let mut table = Table::default();
    for source in [IpAddr::from(SOURCE_V4), SOURCE_V6.into()] {
        table.encapsulations(source);
        table.other_packets(source);
    }
    table.ipv4_fragments();
    table.ipv6_extensions();
    table.truncated();
    table.without_ethernet();
    table.0
}

#[derive(Default)]
struct Table(Vec<TunnelCase>);

impl Table {
    fn push(
        &mut self,
        name: impl Into<String>,
        frame: Vec<u8>,
        source: IpAddr,
        tunnel: Option<(Encapsulation, u32)>,
    ) {
        self.0.push(TunnelCase {
            name: name.into(),
            frame,
            link: LinkLayer::Ethernet,
            source,
            tunnel,
        });
    }

    fn encapsulations(&mut self, source: IpAddr) {
        for vlan_tags in 0..3 {
            for (port, encapsulation) in DEFAULT_TUNNEL_PORTS {
                let payload = header(encapsulation);
                let spec = FrameSpec {
                    vlan_tags,
                    ..spec(source, &payload).to_port(port)
                };
                let name = format!("UDP to {port} from {source}, {vlan_tags} tags");
                self.push(
                    name,
                    spec.build(),
                    source,
                    Some((encapsulation, vni(encapsulation))),
                );
            }
            for (protocol, encapsulation) in protocols() {
                let spec = FrameSpec {
                    vlan_tags,
                    ..spec(source, &[0; 60])
                };
                let name = format!("protocol {protocol} from {source}, {vlan_tags} tags");
                let tunnel = Some((encapsulation, NO_VNI));
                self.push(name, spec.build_ip(protocol), source, tunnel);
            }
        }
        let answer = FrameSpec {
            source: SocketAddr::new(source, 51_820),
            ..spec(source, &[4; 32]).to_port(40_000)
        };
        let tunnel = Some((Encapsulation::WireGuard, NO_VNI));
        let name = format!("UDP from WireGuard's port from {source}");
        self.push(name, answer.build(), source, tunnel);
    }

    fn other_packets(&mut self, source: IpAddr) {
        for port in [0, 53, 862, 4788, 4790, 51_821] {
            let name = format!("UDP to {port} from {source}");
            self.push(
                name,
                spec(source, &[8; 50]).to_port(port).build(),
                source,
                None,
            );
        }
        let from_vxlan = FrameSpec {
            source: SocketAddr::new(source, 4789),
            ..spec(source, &[8; 50]).to_port(40_000)
        };
        let name = format!("UDP from VXLAN's port from {source}");
        self.push(name, from_vxlan.build(), source, None);
        for protocol in [1, TCP, 58, 59, 89, 255] {
            let name = format!("protocol {protocol} from {source}");
            let frame = spec(source, &[0x12; 50]).build_ip(protocol);
            self.push(name, frame, source, None);
        }
        let mut other_type = spec(source, &header(Encapsulation::Vxlan))
            .to_port(4789)
            .build();
        other_type[12..14].copy_from_slice(&[0x88, 0xb5]);
        self.push("an ethertype that nobody knows", other_type, source, None);
        let mut version = spec(source, &header(Encapsulation::Vxlan))
            .to_port(4789)
            .build();
        version[12..14].copy_from_slice(&[8, 0]);
        version[ETHERNET_HEADER] = 0x54;
        self.push("IP version 5", version, source, None);
    }

    fn ipv4_fragments(&mut self) {
        let source = SOURCE_V4.into();
        let vxlan = spec(source, &header(Encapsulation::Vxlan)).to_port(4789);
        let (first, later) = (
            FrameSpec {
                more_fragments: true,
                ..vxlan.clone()
            },
            FrameSpec {
                fragment_offset: 100,
                ..vxlan.clone()
            },
        );
        let tunnel = Some((Encapsulation::Vxlan, VNI));
        self.push("first fragment of VXLAN", first.build(), source, tunnel);
        self.push("later fragment of VXLAN", later.build(), source, None);
        let tunnel = Some((Encapsulation::Gre, NO_VNI));
        self.push("later fragment of GRE", later.build_ip(47), source, tunnel);
        let options = FrameSpec {
            options: vec![1; 40],
            ..vxlan
        };
        let tunnel = Some((Encapsulation::Vxlan, VNI));
        self.push("40 bytes of options", options.build(), source, tunnel);
        let mut short_header = spec(source, &[8; 50]).to_port(4789).build();
        short_header[ETHERNET_HEADER] = 0x44;
        self.push("an IPv4 header of 16 bytes", short_header, source, None);
    }

    fn ipv6_extensions(&mut self) {
        // What ip6_tnl puts first unless told otherwise: the tunnel encapsulation limit.
        let limit = (DESTINATION_OPTIONS, vec![0, 0, 4, 1, 4, 1, 1, 0]);
        let first = (FRAGMENT, vec![0, 0, 0, 1, 0, 0, 0, 9]);
        let later = (FRAGMENT, vec![0, 0, 0x05, 0xa8, 0, 0, 0, 9]);
        let vxlan = Some((Encapsulation::Vxlan, VNI));
        let gre = Some((Encapsulation::Gre, NO_VNI));
        for (name, chain, protocol, tunnel) in [
            (
                "options, IPIP",
                vec![&limit],
                4,
                Some((Encapsulation::Ipip, NO_VNI)),
            ),
            ("options, VXLAN", vec![&limit], UDP, vxlan),
            ("first fragment of VXLAN", vec![&first], UDP, vxlan),
            ("later fragment of VXLAN", vec![&later], UDP, None),
            ("later fragment of GRE", vec![&later], 47, gre),
            (
                "options, later fragment of GRE",
                vec![&limit, &later],
                47,
                gre,
            ),
            ("four headers, GRE", vec![&limit; 4], 47, gre),
            ("five headers, GRE", vec![&limit; 5], 47, None),
        ] {
            let frame = extended(&chain, protocol);
            self.push(format!("IPv6 with {name}"), frame, SOURCE_V6.into(), tunnel);
        }
    }

    fn truncated(&mut self) {
        for (source, ip_header) in [
            (IpAddr::from(SOURCE_V4), IPV4_HEADER),
            (SOURCE_V6.into(), IPV6_HEADER),
        ] {
            let whole = spec(source, &header(Encapsulation::Vxlan))
                .to_port(4789)
                .build();
            let ports = ETHERNET_HEADER + ip_header + 4;
            let vni = ETHERNET_HEADER + ip_header + UDP_HEADER + 8;
            for length in 0..whole.len() {
                let tunnel = (length >= ports).then_some((
                    Encapsulation::Vxlan,
                    if length >= vni { VNI } else { NO_VNI },
                ));
                let name = format!("VXLAN from {source} cut to {length}");
                self.push(name, whole[..length].to_vec(), source, tunnel);
            }
        }
    }

    fn without_ethernet(&mut self) {
        for case in tunnels_for_ip() {
            self.0.push(TunnelCase {
                name: format!("{}, without Ethernet", case.name),
                frame: case.frame[ETHERNET_HEADER..].to_vec(),
                link: LinkLayer::None,
                ..case
            });
        }
        self.0.push(TunnelCase {
            name: "neither IPv4 nor IPv6, without Ethernet".into(),
            frame: vec![0x55; 100],
            link: LinkLayer::None,
            source: SOURCE_V4.into(),
            tunnel: None,
        });
    }
}

/// Packets of both families, without VLAN tags.
fn tunnels_for_ip() -> Vec<TunnelCase> {
    let mut table = Table::default();
    for source in [IpAddr::from(SOURCE_V4), SOURCE_V6.into()] {
        let frame = spec(source, &header(Encapsulation::Geneve))
            .to_port(6081)
            .build();
        table.push(
            format!("Geneve from {source}"),
            frame,
            source,
            Some((Encapsulation::Geneve, VNI)),
        );
        let frame = spec(source, &[8; 50]).to_port(53).build();
        table.push(format!("UDP to 53 from {source}"), frame, source, None);
    }
    table.0
}

const fn protocols() -> [(u8, Encapsulation); 3] {
    [
        (4, Encapsulation::Ipip),
        (41, Encapsulation::Sit),
        (47, Encapsulation::Gre),
    ]
}

pub(super) fn spec(source: IpAddr, payload: &[u8]) -> FrameSpec {
    FrameSpec::new(payload).from_address(source)
}

fn mapped(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

const fn vni(encapsulation: Encapsulation) -> u32 {
    match encapsulation {
        Encapsulation::Vxlan | Encapsulation::Geneve => VNI,
        _ => NO_VNI,
    }
}

/// What comes behind the UDP header, and the beginning of an inner frame.
fn header(encapsulation: Encapsulation) -> Vec<u8> {
    let [_, vni @ ..] = VNI.to_be_bytes();
    let mut header = match encapsulation {
        Encapsulation::Vxlan => vec![8, 0, 0, 0],
        Encapsulation::Geneve => vec![0, 0, BRIDGING[0], BRIDGING[1]],
        _ => vec![4; 4],
    };
    header.extend(vni);
    header.extend([0; 57]);
    header
}

/// An IPv6 packet with these extension headers before a VXLAN packet, or what claims to be another
/// protocol's.
fn extended(chain: &[&(u8, Vec<u8>)], protocol: u8) -> Vec<u8> {
    let plain = spec(SOURCE_V6.into(), &header(Encapsulation::Vxlan))
        .to_port(4789)
        .build();
    let mut frame = plain[..ETHERNET_HEADER + IPV6_HEADER].to_vec();
    let mut next_header = ETHERNET_HEADER + 6;
    for (number, bytes) in chain {
        frame[next_header] = *number;
        next_header = frame.len();
        frame.extend(bytes);
    }
    frame[next_header] = protocol;
    frame.extend(&plain[ETHERNET_HEADER + IPV6_HEADER..]);
    frame
}
