//! From plain types to what travels, and back.

mod malformed;
mod tunnels;
mod witness;

use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use probe_ebpf::maps::MAX_WITNESSES;

pub use malformed::Malformed;
pub use witness::{AskReport, Duty, Heard, Question, Watched, WitnessReport};

use super::proto;
use crate::egress::{AddressReport, AddressState, Claim, Desired, EgressIp, Gateway};
use crate::kernel::WitnessSet;
use crate::keys::NodeKey;

/// What a controller pushes to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Push {
    /// The incarnation that the node is believed to be in; `None`: not known.
    pub incarnation: Option<u64>,
    /// All that the node shall hold.
    pub desired: Desired,
}

/// The probe keys that a controller pushes to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPush {
    /// The controller's term.
    pub term: u32,
    /// All keys with which the node answers probes, current first.
    pub keys: Vec<NodeKey>,
}

/// What a node answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The newest epoch that took effect; 0: none yet.
    pub applied_epoch: u64,
    /// The node's incarnation.
    pub incarnation: u64,
    /// Every address that the node should hold, and any that it could not get rid of.
    pub addresses: Vec<AddressReport>,
    /// By which devices its egress IPs may leave although it has no lease, and why.
    pub not_fenced: Vec<String>,
    /// Version of the witness set in force: no vote of an earlier one can extend the lease any more.
    pub witness_version: u64,
}

impl From<Push> for proto::ApplyRequest {
    fn from(push: Push) -> Self {
        Self {
            epoch: push.desired.epoch,
            incarnation: push.incarnation.unwrap_or(0),
            egress_ips: push.desired.addresses.into_iter().map(Into::into).collect(),
            gateways: push.desired.gateways.into_iter().map(Into::into).collect(),
            lease_ms: push.desired.lease_ms,
            witnesses: push.desired.witnesses.map(Into::into),
        }
    }
}

impl TryFrom<proto::ApplyRequest> for Push {
    type Error = Malformed;

    fn try_from(request: proto::ApplyRequest) -> Result<Self, Malformed> {
        let addresses = convert::<_, EgressIp>(request.egress_ips)?;
        refuse_repetition(addresses.iter().map(|egress_ip| egress_ip.address))?;
        Ok(Self {
            incarnation: (request.incarnation != 0).then_some(request.incarnation),
            desired: Desired {
                epoch: request.epoch,
                addresses,
                gateways: convert(request.gateways)?,
                lease_ms: request.lease_ms,
                witnesses: request.witnesses.map(TryInto::try_into).transpose()?,
            },
        })
    }
}

impl From<WitnessSet> for proto::WitnessSet {
    fn from(set: WitnessSet) -> Self {
        let WitnessSet { version, instances } = set;
        Self { version, instances }
    }
}

impl TryFrom<proto::WitnessSet> for WitnessSet {
    type Error = Malformed;

    fn try_from(received: proto::WitnessSet) -> Result<Self, Malformed> {
        let proto::WitnessSet { version, instances } = received;
        let distinct: HashSet<_> = instances.iter().filter(|it| **it != 0).collect();
        if distinct.len() != instances.len() || instances.len() > MAX_WITNESSES {
            return Err(Malformed::Witnesses { instances });
        }
        Ok(Self { version, instances })
    }
}

impl From<EgressIp> for proto::EgressIp {
    fn from(egress_ip: EgressIp) -> Self {
        let claim = match egress_ip.claim {
            Claim::First => proto::Claim::First,
            Claim::Failover => proto::Claim::Failover,
        };
        Self {
            gateway: egress_ip.gateway,
            address: egress_ip.address.to_string(),
            claim: claim.into(),
            sources: egress_ip.sources.iter().map(ToString::to_string).collect(),
            interface: egress_ip.interface,
            routed: egress_ip.routed,
        }
    }
}

impl TryFrom<proto::EgressIp> for EgressIp {
    type Error = Malformed;

    fn try_from(received: proto::EgressIp) -> Result<Self, Malformed> {
        let address = parse_address(received.address)?;
        let claim = match proto::Claim::try_from(received.claim) {
            Ok(proto::Claim::First) => Claim::First,
            Ok(proto::Claim::Failover) => Claim::Failover,
            Ok(proto::Claim::Unspecified) | Err(_) => {
                let claim = received.claim;
                return Err(Malformed::Claim { address, claim });
            }
        };
        let source = |text: String| {
            text.parse()
                .map_err(|_| Malformed::Source { address, text })
        };
        Ok(Self {
            gateway: received.gateway,
            address,
            claim,
            sources: received
                .sources
                .into_iter()
                .map(source)
                .collect::<Result<_, _>>()?,
            interface: received.interface,
            routed: received.routed,
        })
    }
}

impl From<Gateway> for proto::Gateway {
    fn from(gateway: Gateway) -> Self {
        let in_words = |prefixes: Vec<IpNet>| prefixes.iter().map(ToString::to_string).collect();
        Self {
            name: gateway.name,
            egress_ips: in_words(gateway.egress_ips),
            sources: in_words(gateway.sources),
            interface: gateway.interface,
            routed: gateway.routed,
        }
    }
}

impl TryFrom<proto::Gateway> for Gateway {
    type Error = Malformed;

    fn try_from(received: proto::Gateway) -> Result<Self, Malformed> {
        let name = received.name;
        let parse = |texts: Vec<String>| -> Result<Vec<IpNet>, Malformed> {
            let prefix = |text: String| {
                text.parse().map_err(|_| Malformed::Prefix {
                    gateway: name.clone(),
                    text,
                })
            };
            texts.into_iter().map(prefix).collect()
        };
        Ok(Self {
            egress_ips: parse(received.egress_ips)?,
            sources: parse(received.sources)?,
            interface: received.interface,
            routed: received.routed,
            name,
        })
    }
}

impl From<KeyPush> for proto::ReplaceKeysRequest {
    fn from(push: KeyPush) -> Self {
        Self {
            term: push.term,
            keys: push.keys.iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<proto::ReplaceKeysRequest> for KeyPush {
    type Error = Malformed;

    fn try_from(request: proto::ReplaceKeysRequest) -> Result<Self, Malformed> {
        Ok(Self {
            term: request.term,
            keys: convert(request.keys)?,
        })
    }
}

impl fmt::Debug for proto::ProbeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProbeKey")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl From<&NodeKey> for proto::ProbeKey {
    fn from(key: &NodeKey) -> Self {
        Self {
            id: key.id.into(),
            secret: key.bytes().to_vec(),
        }
    }
}

impl TryFrom<proto::ProbeKey> for NodeKey {
    type Error = Malformed;

    fn try_from(received: proto::ProbeKey) -> Result<Self, Malformed> {
        let id = received
            .id
            .try_into()
            .map_err(|_| Malformed::KeyId { id: received.id })?;
        let len = received.secret.len();
        let secret = received
            .secret
            .try_into()
            .map_err(|_| Malformed::KeyLength { id, len })?;
        Ok(Self::new(id, secret))
    }
}

impl From<Report> for proto::ApplyReport {
    fn from(report: Report) -> Self {
        Self {
            applied_epoch: report.applied_epoch,
            incarnation: report.incarnation,
            addresses: report.addresses.into_iter().map(Into::into).collect(),
            not_fenced: report.not_fenced,
            witness_version: report.witness_version,
        }
    }
}

impl TryFrom<proto::ApplyReport> for Report {
    type Error = Malformed;

    fn try_from(received: proto::ApplyReport) -> Result<Self, Malformed> {
        let addresses = convert::<_, AddressReport>(received.addresses)?;
        refuse_repetition(addresses.iter().map(|report| report.address))?;
        Ok(Self {
            applied_epoch: received.applied_epoch,
            incarnation: received.incarnation,
            addresses,
            not_fenced: received.not_fenced,
            witness_version: received.witness_version,
        })
    }
}

impl From<AddressReport> for proto::AddressReport {
    fn from(report: AddressReport) -> Self {
        use proto::AddressState as Wire;
        let (state, duplicate_mac, error) = match report.state {
            AddressState::Configured => (Wire::Configured, Vec::new(), String::new()),
            AddressState::Announced => (Wire::Announced, Vec::new(), String::new()),
            AddressState::Duplicate { mac } => (Wire::Duplicate, mac.to_vec(), String::new()),
            AddressState::Failed { error } => (Wire::Error, Vec::new(), error),
        };
        Self {
            address: report.address.to_string(),
            state: state.into(),
            duplicate_mac,
            error,
        }
    }
}

impl TryFrom<proto::AddressReport> for AddressReport {
    type Error = Malformed;

    fn try_from(received: proto::AddressReport) -> Result<Self, Malformed> {
        use proto::AddressState as Wire;
        let address = parse_address(received.address)?;
        let len = received.duplicate_mac.len();
        let state = match Wire::try_from(received.state) {
            Ok(Wire::Configured) => AddressState::Configured,
            Ok(Wire::Announced) => AddressState::Announced,
            Ok(Wire::Duplicate) => AddressState::Duplicate {
                mac: received
                    .duplicate_mac
                    .try_into()
                    .map_err(|_| Malformed::Mac { address, len })?,
            },
            Ok(Wire::Error) => AddressState::Failed {
                error: received.error,
            },
            Ok(Wire::Unspecified) | Err(_) => {
                let state = received.state;
                return Err(Malformed::State { address, state });
            }
        };
        Ok(Self { address, state })
    }
}

fn convert<T, U: TryFrom<T>>(list: Vec<T>) -> Result<Vec<U>, U::Error> {
    list.into_iter().map(U::try_from).collect()
}

fn parse_address(text: String) -> Result<IpAddr, Malformed> {
    text.parse().map_err(|_| Malformed::Address { text })
}

fn refuse_repetition(addresses: impl Iterator<Item = IpAddr>) -> Result<(), Malformed> {
    let mut seen = HashSet::new();
    for address in addresses {
        if !seen.insert(address) {
            return Err(Malformed::Twice { address });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
