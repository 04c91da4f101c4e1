//! What a controller asks of tunnels, and what nodes answer.

use std::net::IpAddr;
use std::time::Duration;

use probe_ebpf::maps::Encapsulation;

use super::{Malformed, convert, parse_address, proto};
use crate::kernel::{Peer, Traffic};
use crate::tunnels::{Named, TunnelQuestion, TunnelReport};

impl From<Named> for proto::TunnelNode {
    fn from(named: Named) -> Self {
        Self {
            name: named.node,
            addresses: named.addresses.iter().map(IpAddr::to_string).collect(),
        }
    }
}

impl TryFrom<proto::TunnelNode> for Named {
    type Error = Malformed;

    fn try_from(received: proto::TunnelNode) -> Result<Self, Malformed> {
        let addresses = received.addresses.into_iter().map(parse_address);
        Ok(Self {
            node: received.name,
            addresses: addresses.collect::<Result<_, _>>()?,
        })
    }
}

impl From<TunnelQuestion> for proto::TunnelsRequest {
    fn from(question: TunnelQuestion) -> Self {
        Self {
            nodes: question.nodes.iter().cloned().map(Into::into).collect(),
            peers: question.peers.iter().map(IpAddr::to_string).collect(),
        }
    }
}

impl TryFrom<proto::TunnelsRequest> for TunnelQuestion {
    type Error = Malformed;

    fn try_from(received: proto::TunnelsRequest) -> Result<Self, Malformed> {
        let peers = received.peers.into_iter().map(parse_address);
        Ok(Self {
            nodes: convert(received.nodes)?.into(),
            peers: peers.collect::<Result<_, _>>()?,
        })
    }
}

impl From<TunnelReport> for proto::TunnelsReport {
    fn from(report: TunnelReport) -> Self {
        Self {
            enabled: report.enabled,
            not_counted: report.not_counted,
            tunnels: report.tunnels.into_iter().map(Into::into).collect(),
            left_out: report.left_out,
        }
    }
}

impl TryFrom<proto::TunnelsReport> for TunnelReport {
    type Error = Malformed;

    fn try_from(received: proto::TunnelsReport) -> Result<Self, Malformed> {
        Ok(Self {
            enabled: received.enabled,
            not_counted: received.not_counted,
            tunnels: convert(received.tunnels)?,
            left_out: received.left_out,
        })
    }
}

impl From<Peer> for proto::Tunnel {
    fn from(peer: Peer) -> Self {
        Self {
            address: peer.address.to_string(),
            encapsulation: proto::Encapsulation::from(peer.encapsulation).into(),
            vni: peer.vni,
            received: Some(peer.received.into()),
            sent: Some(peer.sent.into()),
        }
    }
}

impl TryFrom<proto::Tunnel> for Peer {
    type Error = Malformed;

    fn try_from(received: proto::Tunnel) -> Result<Self, Malformed> {
        let address = parse_address(received.address)?;
        let encapsulation = received.encapsulation;
        let known = proto::Encapsulation::try_from(encapsulation)
            .ok()
            .and_then(encapsulation_of);
        let unknown = Malformed::Encapsulation {
            address,
            encapsulation,
        };
        Ok(Self {
            address,
            encapsulation: known.ok_or(unknown)?,
            vni: received.vni,
            received: received.received.unwrap_or_default().into(),
            sent: received.sent.unwrap_or_default().into(),
        })
    }
}

impl From<Traffic> for proto::TunnelTraffic {
    fn from(traffic: Traffic) -> Self {
        Self {
            packets: traffic.packets,
            bytes: traffic.bytes,
            age_ms: traffic.age.map(|age| age.as_millis() as u64),
        }
    }
}

impl From<proto::TunnelTraffic> for Traffic {
    fn from(received: proto::TunnelTraffic) -> Self {
        Self {
            packets: received.packets,
            bytes: received.bytes,
            age: received.age_ms.map(Duration::from_millis),
        }
    }
}

impl From<Encapsulation> for proto::Encapsulation {
    fn from(encapsulation: Encapsulation) -> Self {
        match encapsulation {
            Encapsulation::Vxlan => Self::Vxlan,
            Encapsulation::Geneve => Self::Geneve,
            Encapsulation::WireGuard => Self::Wireguard,
            Encapsulation::Ipip => Self::Ipip,
            Encapsulation::Sit => Self::Sit,
            Encapsulation::Gre => Self::Gre,
        }
    }
}

const fn encapsulation_of(received: proto::Encapsulation) -> Option<Encapsulation> {
    Some(match received {
        proto::Encapsulation::Unspecified => return None,
        proto::Encapsulation::Vxlan => Encapsulation::Vxlan,
        proto::Encapsulation::Geneve => Encapsulation::Geneve,
        proto::Encapsulation::Wireguard => Encapsulation::WireGuard,
        proto::Encapsulation::Ipip => Encapsulation::Ipip,
        proto::Encapsulation::Sit => Encapsulation::Sit,
        proto::Encapsulation::Gre => Encapsulation::Gre,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(encapsulation: Encapsulation) -> Peer {
        Peer {
            address: "fd00::9".parse().unwrap(),
            encapsulation,
            vni: Some(7),
            received: Traffic {
                packets: 5,
                bytes: 600,
                age: Some(Duration::from_millis(40)),
            },
            sent: Traffic::default(),
        }
    }

    #[test]
    fn what_is_counted_arrives_as_it_was_sent() {
        let report = TunnelReport {
            enabled: true,
            not_counted: vec!["no eth9".to_owned()],
            tunnels: Encapsulation::ALL.map(peer).into(),
            left_out: 3,
        };
        let sent = proto::TunnelsReport::from(report.clone());
        assert_eq!(TunnelReport::try_from(sent), Ok(report));
    }

    #[test]
    fn an_encapsulation_that_is_not_known_is_refused_and_so_is_what_is_no_address() {
        let mut sent = proto::Tunnel::from(peer(Encapsulation::Gre));
        sent.encapsulation = 99;
        let error = Peer::try_from(sent.clone()).unwrap_err().to_string();
        assert!(error.contains("fd00::9") && error.contains("99"), "{error}");
        sent.address = "n1".to_owned();
        assert!(Peer::try_from(sent).is_err());
    }

    #[test]
    fn a_question_arrives_as_it_was_sent() {
        let addresses = vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()];
        let question = TunnelQuestion {
            nodes: [Named {
                node: "n1".to_owned(),
                addresses: addresses.clone(),
            }]
            .into(),
            peers: addresses,
        };
        let sent = proto::TunnelsRequest::from(question.clone());
        assert_eq!(TunnelQuestion::try_from(sent), Ok(question));
    }
}
