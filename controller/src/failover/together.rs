//! Gateways beside each other: what they may not have in common, and what they share.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use ipnet::IpNet;

use super::Gateway;

/// Why gateways cannot be together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GatewayError {
    /// Two have the same name.
    #[error("gateway {0}: there are two gateways with this name")]
    Name(String),
    /// Two have the same address.
    #[error("gateway {gateway}: egress IP {address} belongs to gateway {other}, too")]
    Address {
        /// The second one.
        gateway: String,
        /// The address.
        address: IpAddr,
        /// The first one.
        other: String,
    },
    /// An egress IP is a node's own address.
    #[error("gateway {gateway}: egress IP {address} is the address of node {node}")]
    NodeAddress {
        /// The gateway.
        gateway: String,
        /// The address.
        address: IpAddr,
        /// The node.
        node: String,
    },
    /// Traffic of one source would leave from two addresses.
    #[error("gateway {gateway}: source {source_} overlaps {other_source} of gateway {other}")]
    Source {
        /// The second one.
        gateway: String,
        /// Its source.
        source_: IpNet,
        /// The first one.
        other: String,
        /// Its source.
        other_source: IpNet,
    },
    /// A source's traffic has no address of its family to leave from.
    #[error("gateway {gateway}: no egress IP is of the family of source {source_}")]
    Family {
        /// The gateway.
        gateway: String,
        /// The source.
        source_: IpNet,
    },
    /// A default that is no egress IP of the gateway.
    #[error("gateway {gateway}: default {address} is none of its egress IPs")]
    Default {
        /// The gateway.
        gateway: String,
        /// The address.
        address: IpAddr,
    },
    /// Two would serve whoever names none.
    #[error("gateway {gateway}: gateway {other} is the cluster's default already")]
    ClusterDefault {
        /// The second one.
        gateway: String,
        /// The first one.
        other: String,
    },
}

impl GatewayError {
    /// The gateway that is wrong.
    pub fn gateway(&self) -> &str {
        match self {
            Self::Name(gateway)
            | Self::Address { gateway, .. }
            | Self::NodeAddress { gateway, .. }
            | Self::Source { gateway, .. }
            | Self::Family { gateway, .. }
            | Self::Default { gateway, .. }
            | Self::ClusterDefault { gateway, .. } => gateway,
        }
    }

    /// What is wrong with it, in one word.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Name(_) => "NameConflict",
            Self::Address { .. } => "AddressConflict",
            Self::NodeAddress { .. } => "AddressOfNode",
            Self::Source { .. } => "SourceConflict",
            Self::Family { .. } => "NoAddressOfFamily",
            Self::Default { .. } => "DefaultNotInPool",
            Self::ClusterDefault { .. } => "DefaultConflict",
        }
    }
}

/// Checks that gateways can be together, and beside nodes with these addresses.
///
/// # Errors
///
/// Names the gateway and what it collides with.
pub fn check_gateways<'a>(
    gateways: &[Gateway],
    node_addresses: impl IntoIterator<Item = (IpAddr, &'a str)>,
) -> Result<(), GatewayError> {
    let nodes: HashMap<IpAddr, &str> = node_addresses.into_iter().collect();
    let mut names = HashSet::new();
    let mut owners: HashMap<IpAddr, &str> = HashMap::new();
    let mut sources: Vec<(IpNet, &Gateway)> = Vec::new();
    let mut cluster_default: Option<&str> = None;
    for gateway in gateways {
        let name = || gateway.name.clone();
        if !names.insert(&gateway.name) {
            return Err(GatewayError::Name(name()));
        }
        for address in gateway.pool.iter() {
            if let Some(node) = nodes.get(&address) {
                let node = (*node).to_owned();
                return Err(GatewayError::NodeAddress {
                    gateway: name(),
                    address,
                    node,
                });
            }
            if let Some(other) = owners.insert(address, &gateway.name) {
                let other = other.to_owned();
                return Err(GatewayError::Address {
                    gateway: name(),
                    address,
                    other,
                });
            }
        }
        gateway.check_alone()?;
        for &source in &gateway.sources {
            check_source(gateway, source, &sources)?;
            sources.push((source, gateway));
        }
        if gateway.cluster_default
            && let Some(other) = cluster_default.replace(&gateway.name)
        {
            let other = other.to_owned();
            return Err(GatewayError::ClusterDefault {
                gateway: name(),
                other,
            });
        }
    }
    Ok(())
}

fn check_source(
    gateway: &Gateway,
    source: IpNet,
    before: &[(IpNet, &Gateway)],
) -> Result<(), GatewayError> {
    // The cluster's default leaves parts of its sources to others.
    let shares = |gateway: &Gateway, whole: IpNet, part: IpNet| {
        gateway.cluster_default && whole != part && whole.contains(&part)
    };
    let overlaps = |(other_source, other): &&(IpNet, &Gateway)| {
        let overlap = other_source.contains(&source) || source.contains(other_source);
        let other_shares = shares(other, *other_source, source);
        overlap && !shares(gateway, source, *other_source) && !other_shares
    };
    match before.iter().find(overlaps) {
        None => Ok(()),
        Some((other_source, other)) => Err(GatewayError::Source {
            gateway: gateway.name.clone(),
            source_: source,
            other: other.name.clone(),
            other_source: *other_source,
        }),
    }
}

/// Leaves to each gateway what it names: the cluster's default serves the rest of its sources.
pub fn share_sources(gateways: &mut [Gateway]) {
    let named = gateways.iter().filter(|gateway| !gateway.cluster_default);
    let named: Vec<IpNet> = named.flat_map(|gateway| gateway.sources.clone()).collect();
    for default in gateways.iter_mut().filter(|it| it.cluster_default) {
        let own = |source: &IpNet| default.sources.iter().any(|it| it.contains(source));
        default.except = named.iter().copied().filter(own).collect();
    }
}

#[cfg(test)]
mod tests {
    use probe_user::egress::Claim;

    use super::*;
    use crate::failover::gateway::tests::gateway;

    fn refusal(gateways: &[Gateway]) -> String {
        check_gateways(gateways, []).unwrap_err().to_string()
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn nets(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn pools_that_overlap_are_refused_by_gateway_and_address() {
        let error = refusal(&[
            gateway("one", &["10.0.0.1-10.0.0.9"]),
            gateway("two", &["10.0.0.8/31"]),
        ]);
        assert_eq!(
            error,
            "gateway two: egress IP 10.0.0.8 belongs to gateway one, too"
        );
    }

    #[test]
    fn a_nodes_own_address_is_no_egress_ip() {
        let gateways = [gateway("one", &["10.0.0.1"])];
        let error = check_gateways(&gateways, [(ip("10.0.0.1"), "n1")])
            .unwrap_err()
            .to_string();
        assert!(error.contains("address of node n1"), "{error}");
    }

    #[test]
    fn names_and_the_cluster_default_are_unique() {
        let one = gateway("one", &["10.0.0.1"]);
        assert!(refusal(&[one.clone(), gateway("one", &["10.0.0.2"])]).contains("gateway one"));
        let default = |name, pool| Gateway {
            cluster_default: true,
            ..gateway(name, pool)
        };
        let error = refusal(&[default("a", &["10.0.0.1"]), default("b", &["10.0.0.2"])]);
        assert_eq!(
            error,
            "gateway b: gateway a is the cluster's default already"
        );
    }

    #[test]
    fn sources_that_overlap_are_refused_by_name() {
        let with = |name, pool, sources| Gateway {
            sources: nets(sources),
            ..gateway(name, pool)
        };
        let error = refusal(&[
            with("a", &["10.0.0.1"], &["192.168.0.0/16"]),
            with("b", &["10.0.0.2"], &["192.168.7.0/24"]),
        ]);
        assert!(
            error.contains("gateway b: source 192.168.7.0/24 overlaps 192.168.0.0/16"),
            "{error}"
        );
    }

    #[test]
    fn the_cluster_default_serves_what_no_other_gateway_names() {
        let with = |name, pool, sources| Gateway {
            sources: nets(sources),
            ..gateway(name, pool)
        };
        let default = Gateway {
            cluster_default: true,
            ..with(
                "all",
                &["10.0.0.1-10.0.0.9"],
                &["192.168.0.0/16", "172.16.0.0/12"],
            )
        };
        let other = with("other", &["10.0.0.10"], &["192.168.128.0/18"]);
        let served = |gateways: &mut [Gateway; 2]| {
            check_gateways(gateways, []).unwrap();
            share_sources(gateways);
            let default = gateways.iter().find(|it| it.cluster_default).unwrap();
            let leaving = |address| default.egress_ip(address, Claim::First).sources;
            let mut leaving: Vec<IpNet> = default.pool.iter().flat_map(leaving).collect();
            leaving.sort_unstable();
            assert_eq!(
                IpNet::aggregate(&leaving),
                IpNet::aggregate(&default.told().sources)
            );
            leaving
        };
        let expected = nets(&["172.16.0.0/12", "192.168.0.0/17", "192.168.192.0/18"]);
        assert_eq!(served(&mut [default.clone(), other.clone()]), expected);
        assert_eq!(served(&mut [other, default]), expected);
    }

    #[test]
    fn the_cluster_default_names_nothing_that_is_wholly_anothers() {
        for source in ["192.168.7.0/24", "192.168.0.0/16"] {
            let other = Gateway {
                sources: nets(&["192.168.0.0/16"]),
                ..gateway("other", &["10.0.0.1"])
            };
            let default = Gateway {
                cluster_default: true,
                sources: nets(&[source]),
                ..gateway("all", &["10.0.0.2"])
            };
            assert!(refusal(&[other, default]).contains("overlaps"), "{source}");
        }
    }

    #[test]
    fn a_source_needs_an_address_of_its_family_and_a_default_one_of_the_pool() {
        let mut one = gateway("one", &["10.0.0.1"]);
        one.sources = nets(&["fd00::/64"]);
        assert!(refusal(&[one.clone()]).contains("family of source fd00::/64"));
        one.sources = Vec::new();
        one.defaults = vec![ip("10.0.0.2")];
        assert!(refusal(&[one]).contains("default 10.0.0.2"));
    }
}
