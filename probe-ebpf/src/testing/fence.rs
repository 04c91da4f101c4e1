//! The table of the fence: a packet, and what has to become of it.

use std::format;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::string::String;
use std::vec;
use std::vec::Vec;

use super::frames::FrameSpec;
use crate::fence::{Family, FenceOutcome, Guards, LinkLayer};
use crate::maps::{Address, EgressIp, Guard};

const OWN_V4: Ipv4Addr = Ipv4Addr::new(10, 77, 9, 1);
const SHUT_V4: Ipv4Addr = Ipv4Addr::new(10, 77, 9, 2);
const OTHER_V4: Ipv4Addr = Ipv4Addr::new(10, 77, 9, 3);
const OWN_V6: Ipv6Addr = Ipv6Addr::new(0xfd77, 9, 0, 0, 0, 0, 0, 1);
const SHUT_V6: Ipv6Addr = Ipv6Addr::new(0xfd77, 9, 0, 0, 0, 0, 0, 2);
const OTHER_V6: Ipv6Addr = Ipv6Addr::new(0xfd77, 9, 0, 0, 0, 0, 0, 3);
const LINK_LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

const ETHERNET_HEADER: usize = 14;
const HOP_BY_HOP: u8 = 0;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const ICMPV6: u8 = 58;
const DESTINATION_OPTIONS: u8 = 60;
const ROUTER_SOLICITATION: u8 = 133;
const NEIGHBOUR_SOLICITATION: u8 = 135;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;

/// Extension headers, each with its number.
type Chain = Vec<(u8, Vec<u8>)>;

/// The guards of the table, and a clock that stands still.
pub struct HostGuards {
    /// When the lease ends.
    pub expires_ns: u64,
    /// Boot clock, ns.
    pub now: u64,
}

impl HostGuards {
    /// What is guarded.
    pub fn entries() -> Vec<(IpAddr, Guard)> {
        vec![
            (OWN_V4.into(), Guard::Own),
            (SHUT_V4.into(), Guard::Shut),
            (OWN_V6.into(), Guard::Own),
            (SHUT_V6.into(), Guard::Shut),
        ]
    }
}

impl Guards for HostGuards {
    fn guard(&self, address: Address) -> Option<Guard> {
        let key = EgressIp::from(address);
        let mut entries = Self::entries().into_iter();
        let found = entries.find(|(address, _)| mapped(*address) == key.address);
        found.map(|(_, guard)| guard)
    }

    fn lease_expires(&self) -> u64 {
        self.expires_ns
    }

    fn now(&self) -> u64 {
        self.now
    }
}

fn mapped(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// One row.
pub struct FenceCase {
    /// What is special about the packet.
    pub name: String,
    /// The packet, from its link layer's header on.
    pub frame: Vec<u8>,
    /// What comes first in it.
    pub link: LinkLayer,
    family: Family,
    guard: Option<Guard>,
}

impl FenceCase {
    /// What has to become of it while the lease is held, or is not.
    pub const fn expected(&self, held: bool) -> FenceOutcome {
        use FenceOutcome as Outcome;
        match (self.guard, self.family) {
            (None, _) => Outcome::Unguarded,
            (Some(Guard::Own), Family::Ipv4) if held => Outcome::PassedIpv4,
            (Some(Guard::Own), Family::Ipv6) if held => Outcome::PassedIpv6,
            (Some(Guard::Own), Family::Arp) if held => Outcome::PassedArp,
            (Some(Guard::Own), Family::Nd) if held => Outcome::PassedNd,
            (Some(Guard::Own), Family::Ipv4) => Outcome::NoLeaseIpv4,
            (Some(Guard::Own), Family::Ipv6) => Outcome::NoLeaseIpv6,
            (Some(Guard::Own), Family::Arp) => Outcome::NoLeaseArp,
            (Some(Guard::Own), Family::Nd) => Outcome::NoLeaseNd,
            (Some(Guard::Shut), Family::Ipv4) => Outcome::ShutIpv4,
            (Some(Guard::Shut), Family::Ipv6) => Outcome::ShutIpv6,
            (Some(Guard::Shut), Family::Arp) => Outcome::ShutArp,
            (Some(Guard::Shut), Family::Nd) => Outcome::ShutNd,
        }
    }
}

/// All rows, for the guards that [`HostGuards::entries`] lists. Every outcome occurs, with a lease
/// or without.
pub fn fence_cases() -> Vec<FenceCase> {
    let mut table = Table::default();
    table.ip();
    table.arp();
    table.neighbour_discovery();
    table.extension_headers();
    table.truncated();
    table.without_ethernet();
    table.0
}

#[derive(Default)]
struct Table(Vec<FenceCase>);

impl Table {
    fn push(
        &mut self,
        name: impl Into<String>,
        frame: Vec<u8>,
        family: Family,
        guard: Option<Guard>,
    ) {
        self.0.push(FenceCase {
            name: name.into(),
            frame,
            link: LinkLayer::Ethernet,
            family,
            guard,
        });
    }

    /// The same packet with no VLAN tag, one, and two.
    fn push_tagged(&mut self, name: &str, frame: &[u8], family: Family, guard: Option<Guard>) {
        for (tags, how) in [
            (&[][..], ""),
            (&[0x81, 0, 0, 7], ", VLAN"),
            (&[0x88, 0xa8, 0, 9, 0x81, 0, 0, 7], ", QinQ"),
        ] {
            let mut frame = frame.to_vec();
            frame.splice(12..12, tags.iter().copied());
            self.push(format!("{name}{how}"), frame, family, guard);
        }
    }

    fn ip(&mut self) {
        for (source, guard) in sources_v4().into_iter().chain(sources_v6()) {
            let family = match source {
                IpAddr::V4(_) => Family::Ipv4,
                IpAddr::V6(_) => Family::Ipv6,
            };
            let frame = udp(source).build();
            self.push_tagged(&format!("UDP from {source}"), &frame, family, guard);
        }
        for (source, guard) in sources_v4() {
            let options = FrameSpec {
                options: vec![1; 40],
                ..udp(source)
            };
            let first = FrameSpec {
                more_fragments: true,
                ..udp(source)
            };
            let later = FrameSpec {
                fragment_offset: 100,
                ..udp(source)
            };
            for (what, spec) in [
                ("40 bytes of options", options),
                ("first fragment", first),
                ("later fragment", later),
            ] {
                let name = format!("{what} from {source}");
                self.push(name, spec.build(), Family::Ipv4, guard);
            }
        }
        let mut third_tag = udp(SHUT_V4.into()).build();
        third_tag.splice(12..12, [0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 0x81, 0, 0, 3]);
        self.push("a third VLAN tag", third_tag, Family::Ipv4, None);
        let to_guarded = FrameSpec {
            destination: (SHUT_V4, 80).into(),
            ..udp(OTHER_V4.into())
        };
        self.push(
            "to a guarded address",
            to_guarded.build(),
            Family::Ipv4,
            None,
        );
    }

    fn arp(&mut self) {
        for (operation, what) in [(1, "request"), (2, "reply"), (8, "inverse request")] {
            for (sender, guard) in sources_v4() {
                let frame = arp(operation, sender, OTHER_V4);
                let name = format!("ARP {what} from {sender}");
                self.push_tagged(&name, &frame, Family::Arp, guard);
            }
        }
        let gratuitous = arp(1, OWN_V4.into(), OWN_V4);
        self.push("gratuitous ARP", gratuitous, Family::Arp, Some(Guard::Own));
        for asked in [OWN_V4, SHUT_V4] {
            let probe = arp(1, Ipv4Addr::UNSPECIFIED.into(), asked);
            self.push(format!("ARP probe for {asked}"), probe, Family::Arp, None);
            let request = arp(1, OTHER_V4.into(), asked);
            let name = format!("ARP request for {asked}");
            self.push(name, request, Family::Arp, None);
        }
        let mut long_hardware = arp(1, SHUT_V4.into(), OTHER_V4);
        long_hardware[ETHERNET_HEADER + 4] = 8;
        long_hardware.splice(ETHERNET_HEADER + 8..ETHERNET_HEADER + 8, [0, 0]);
        let shut = Some(Guard::Shut);
        self.push("ARP with EUI-64", long_hardware, Family::Arp, shut);
        let mut other_protocol = arp(1, SHUT_V4.into(), OTHER_V4);
        other_protocol[ETHERNET_HEADER + 2] = 9;
        self.push("ARP of no IPv4", other_protocol, Family::Arp, None);
        let mut reverse = arp(3, SHUT_V4.into(), OTHER_V4);
        reverse[12..14].copy_from_slice(&[0x80, 0x35]);
        self.push("RARP", reverse, Family::Arp, None);
    }

    fn neighbour_discovery(&mut self) {
        for (source, guard) in sources_v6() {
            let solicitation = icmpv6(v6(source), NEIGHBOUR_SOLICITATION, OTHER_V6);
            let name = format!("solicitation from {source}");
            self.push_tagged(&name, &solicitation, Family::Nd, guard);
            let advertisement = icmpv6(v6(source), NEIGHBOUR_ADVERTISEMENT, v6(source));
            let name = format!("advertisement from and of {source}");
            self.push_tagged(&name, &advertisement, Family::Nd, guard);
            let of_other = icmpv6(v6(source), NEIGHBOUR_ADVERTISEMENT, OTHER_V6);
            let name = format!("advertisement of another address from {source}");
            self.push(name, of_other, Family::Nd, guard);
            let from_link_local = icmpv6(LINK_LOCAL, NEIGHBOUR_ADVERTISEMENT, v6(source));
            let name = format!("advertisement of {source} from a link-local address");
            self.push_tagged(&name, &from_link_local, Family::Nd, guard);
            let router = icmpv6(v6(source), ROUTER_SOLICITATION, v6(source));
            let name = format!("router solicitation from {source}");
            self.push(name, router, Family::Ipv6, guard);
        }
        let shut = Some(Guard::Shut);
        let of_shut = icmpv6(OWN_V6, NEIGHBOUR_ADVERTISEMENT, SHUT_V6);
        self.push(
            "own address says shut one's here",
            of_shut,
            Family::Nd,
            shut,
        );
        let from_shut = icmpv6(SHUT_V6, NEIGHBOUR_ADVERTISEMENT, OWN_V6);
        self.push(
            "shut address says own one's here",
            from_shut,
            Family::Nd,
            shut,
        );
        for asked in [OWN_V6, SHUT_V6] {
            for source in [Ipv6Addr::UNSPECIFIED, LINK_LOCAL] {
                let frame = icmpv6(source, NEIGHBOUR_SOLICITATION, asked);
                let name = format!("solicitation for {asked} from {source}");
                self.push(name, frame, Family::Nd, None);
            }
        }
    }

    fn extension_headers(&mut self) {
        let options = |next: u8| [next, 0, 1, 4, 0, 0, 0, 0].to_vec();
        let long_options = |next: u8| [&[next, 31][..], &[0; 254]].concat();
        let first_fragment = |next: u8| [next, 0, 0, 1, 0, 0, 0, 9].to_vec();
        let authentication = |next: u8| [&[next, 4][..], &[0; 22]].concat();
        let chains: [(&str, Chain); 5] = [
            ("hop-by-hop options", vec![(HOP_BY_HOP, options(ICMPV6))]),
            (
                "256 bytes of options",
                vec![(DESTINATION_OPTIONS, long_options(ICMPV6))],
            ),
            ("a first fragment", vec![(FRAGMENT, first_fragment(ICMPV6))]),
            (
                "authentication",
                vec![(AUTHENTICATION, authentication(ICMPV6))],
            ),
            (
                "four headers",
                vec![
                    (HOP_BY_HOP, options(FRAGMENT)),
                    (FRAGMENT, first_fragment(DESTINATION_OPTIONS)),
                    (DESTINATION_OPTIONS, options(DESTINATION_OPTIONS)),
                    (DESTINATION_OPTIONS, options(ICMPV6)),
                ],
            ),
        ];
        for (target, guard) in sources_v6() {
            for (what, chain) in &chains {
                let bare = icmpv6(LINK_LOCAL, NEIGHBOUR_ADVERTISEMENT, v6(target));
                let frame = behind(&bare, chain);
                let name = format!("advertisement of {target} behind {what}");
                self.push_tagged(&name, &frame, Family::Nd, guard);
            }
            let later = [58, 0, 0, 8, 0, 0, 0, 9].to_vec();
            let bare = icmpv6(v6(target), NEIGHBOUR_ADVERTISEMENT, v6(target));
            let frame = behind(&bare, &[(FRAGMENT, later)]);
            let name = format!("later fragment from {target}");
            self.push(name, frame, Family::Ipv6, guard);
            let five = vec![(DESTINATION_OPTIONS, options(DESTINATION_OPTIONS)); 5];
            let frame = behind(&bare, &five);
            let name = format!("more headers than are looked behind, from {target}");
            self.push(name, frame, Family::Ipv6, guard);
        }
    }

    /// What ends before the address claims nothing; what ends later does.
    fn truncated(&mut self) {
        let shut = Some(Guard::Shut);
        let ipv4 = udp(SHUT_V4.into()).build();
        let arp = arp(1, SHUT_V4.into(), OTHER_V4);
        let ipv6 = udp(SHUT_V6.into()).build();
        for (name, frame, family, address_end) in [
            ("IPv4", ipv4, Family::Ipv4, ETHERNET_HEADER + 16),
            ("ARP", arp, Family::Arp, ETHERNET_HEADER + 18),
            ("IPv6", ipv6, Family::Ipv6, ETHERNET_HEADER + 24),
        ] {
            for length in 0..frame.len() {
                let guard = shut.filter(|_| length >= address_end);
                let name = format!("{name} cut to {length} bytes");
                self.push(name, frame[..length].to_vec(), family, guard);
            }
        }
        let advertisement = icmpv6(LINK_LOCAL, NEIGHBOUR_ADVERTISEMENT, SHUT_V6);
        for length in 0..advertisement.len() {
            let guard = shut.filter(|_| length >= ETHERNET_HEADER + 40 + 24);
            let name = format!("advertisement cut to {length} bytes");
            self.push(name, advertisement[..length].to_vec(), Family::Nd, guard);
        }
    }

    fn without_ethernet(&mut self) {
        let with: Vec<_> = self
            .0
            .iter()
            .filter(|case| {
                matches!(case.frame.get(12..14), Some([0x08, 0x00] | [0x86, 0xdd]))
                    && case.frame.len() > ETHERNET_HEADER
            })
            .map(|case| FenceCase {
                name: format!("{}, without Ethernet", case.name),
                frame: case.frame[ETHERNET_HEADER..].to_vec(),
                link: LinkLayer::None,
                ..*case
            })
            .collect();
        self.0.extend(with);
        let mut version_5 = udp(SHUT_V4.into()).build().split_off(ETHERNET_HEADER);
        version_5[0] = 0x55;
        self.0.push(FenceCase {
            name: "IP version 5".into(),
            frame: version_5,
            link: LinkLayer::None,
            family: Family::Ipv4,
            guard: None,
        });
    }
}

fn sources_v4() -> [(IpAddr, Option<Guard>); 3] {
    [
        (OWN_V4.into(), Some(Guard::Own)),
        (SHUT_V4.into(), Some(Guard::Shut)),
        (OTHER_V4.into(), None),
    ]
}

fn sources_v6() -> [(IpAddr, Option<Guard>); 3] {
    [
        (OWN_V6.into(), Some(Guard::Own)),
        (SHUT_V6.into(), Some(Guard::Shut)),
        (OTHER_V6.into(), None),
    ]
}

fn v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V6(address) => address,
        IpAddr::V4(address) => address.to_ipv6_mapped(),
    }
}

fn udp(source: IpAddr) -> FrameSpec {
    FrameSpec::new(&[0x55; 64]).from_address(source)
}

fn arp(operation: u8, sender: IpAddr, target: Ipv4Addr) -> Vec<u8> {
    let IpAddr::V4(sender) = sender else {
        panic!("ARP is of IPv4")
    };
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 1, 0x08, 0x06]);
    frame.extend([0, 1, 0x08, 0x00, 6, 4, 0, operation]);
    frame.extend([2, 0, 0, 0, 0, 1]);
    frame.extend(sender.octets());
    frame.extend([0; 6]);
    frame.extend(target.octets());
    frame
}

/// A message of ICMPv6 with a target and a link-layer address option.
fn icmpv6(source: Ipv6Addr, kind: u8, target: Ipv6Addr) -> Vec<u8> {
    let mut frame = vec![0x33, 0x33, 0, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0x86, 0xdd];
    frame.extend([0x60, 0, 0, 0, 0, 32, ICMPV6, 255]);
    frame.extend(source.octets());
    frame.extend(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1).octets());
    frame.extend([kind, 0, 0, 0, 0x20, 0, 0, 0]);
    frame.extend(target.octets());
    frame.extend([2, 1, 2, 0, 0, 0, 0, 1]);
    frame
}

/// Puts extension headers before a packet's payload.
fn behind(frame: &[u8], chain: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let next_header = ETHERNET_HEADER + 6;
    frame[next_header] = chain[0].0;
    let headers: Vec<u8> = chain.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
    let length = (frame.len() - ETHERNET_HEADER - 40 + headers.len()) as u16;
    frame[ETHERNET_HEADER + 4..ETHERNET_HEADER + 6].copy_from_slice(&length.to_be_bytes());
    let payload = ETHERNET_HEADER + 40;
    frame.splice(payload..payload, headers);
    frame
}
