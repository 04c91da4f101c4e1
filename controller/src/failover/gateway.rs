//! Gateways: which nodes may own which addresses, and for whom.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

use ipnet::IpNet;
use probe_user::egress::{self, Claim, EgressIp};

use super::Pool;
use super::placement::{address_hash, score, source_hash};

/// A gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// Its name, unique.
    pub name: String,
    /// A node with all these labels is a candidate; none: every node is.
    pub selector: BTreeMap<String, String>,
    /// Its egress IPs.
    pub pool: Pool,
    /// From which IPv4 or IPv6 address of the pool its sources' traffic leaves; without one, each
    /// source has an address of its own choice.
    pub defaults: Vec<IpAddr>,
    /// Whether it serves those who name no gateway.
    pub cluster_default: bool,
    /// Whose traffic leaves from its addresses.
    pub sources: Vec<IpNet>,
    /// On which interface of a node its addresses are configured; `None`: on the one whose subnet
    /// holds them.
    pub interface: Option<String>,
    /// Its addresses are routed to the nodes, not resolved on a link.
    pub routed: bool,
    /// At most so many of its addresses on one node; `None`: as many as the balance asks for.
    pub max_per_node: Option<usize>,
}

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
    let mut sources: Vec<(IpNet, &str)> = Vec::new();
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
            sources.push((source, &gateway.name));
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
    before: &[(IpNet, &str)],
) -> Result<(), GatewayError> {
    let overlaps = |(other, _): &&(IpNet, &str)| other.contains(&source) || source.contains(other);
    match before.iter().find(overlaps) {
        None => Ok(()),
        Some((other_source, other)) => Err(GatewayError::Source {
            gateway: gateway.name.clone(),
            source_: source,
            other: (*other).to_owned(),
            other_source: *other_source,
        }),
    }
}

impl Gateway {
    fn check_alone(&self) -> Result<(), GatewayError> {
        let gateway = || self.name.clone();
        if let Some(&address) = self
            .defaults
            .iter()
            .find(|address| !self.pool.contains(**address))
        {
            return Err(GatewayError::Default {
                gateway: gateway(),
                address,
            });
        }
        let homeless = |source: &&IpNet| self.leaving(**source).is_none();
        if let Some(&source_) = self.sources.iter().find(homeless) {
            return Err(GatewayError::Family {
                gateway: gateway(),
                source_,
            });
        }
        Ok(())
    }

    /// Whether a node with these labels may own its addresses.
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        self.selector
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value))
    }

    /// What an owner of `address` is told of it.
    pub fn egress_ip(&self, address: IpAddr, claim: Claim) -> EgressIp {
        let leaves = |source: &IpNet| self.leaving(*source) == Some(address);
        EgressIp {
            gateway: self.name.clone(),
            address,
            claim,
            sources: self.sources.iter().copied().filter(leaves).collect(),
            interface: self.interface.clone(),
            routed: self.routed,
        }
    }

    /// What candidates are told of it.
    pub fn told(&self) -> egress::Gateway {
        egress::Gateway {
            name: self.name.clone(),
            egress_ips: self.pool.prefixes(),
            sources: self.sources.clone(),
            interface: self.interface.clone(),
            routed: self.routed,
        }
    }

    /// From which address traffic of `source` leaves: the default of its family, else the same one
    /// as long as that is in the pool, whoever owns it.
    fn leaving(&self, source: IpNet) -> Option<IpAddr> {
        let family = |address: &IpAddr| address.is_ipv4() == source.addr().is_ipv4();
        let default = self.defaults.iter().copied().find(family);
        let hash = source_hash(source);
        let best = |address: &IpAddr| score(hash, address_hash(*address));
        default.or_else(|| self.pool.iter().filter(family).max_by_key(best))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gateway(name: &str, pool: &[&str]) -> Gateway {
        Gateway {
            name: name.to_owned(),
            selector: BTreeMap::new(),
            pool: Pool::parse(pool).unwrap(),
            defaults: Vec::new(),
            cluster_default: false,
            sources: Vec::new(),
            interface: None,
            routed: false,
            max_per_node: None,
        }
    }

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
    fn a_source_needs_an_address_of_its_family_and_a_default_one_of_the_pool() {
        let mut one = gateway("one", &["10.0.0.1"]);
        one.sources = nets(&["fd00::/64"]);
        assert!(refusal(&[one.clone()]).contains("family of source fd00::/64"));
        one.sources = Vec::new();
        one.defaults = vec![ip("10.0.0.2")];
        assert!(refusal(&[one]).contains("default 10.0.0.2"));
    }

    #[test]
    fn a_nodes_labels_must_have_all_that_the_selector_names() {
        let labels = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs
                .iter()
                .map(|(key, value)| ((*key).into(), (*value).into()))
                .collect()
        };
        let mut one = gateway("one", &["10.0.0.1"]);
        assert!(one.selects(&labels(&[])));
        one.selector = labels(&[("egress", "yes"), ("zone", "a")]);
        assert!(one.selects(&labels(&[("egress", "yes"), ("zone", "a"), ("more", "")])));
        assert!(!one.selects(&labels(&[("egress", "yes")])));
        assert!(!one.selects(&labels(&[("egress", "yes"), ("zone", "b")])));
    }

    #[test]
    fn sources_leave_from_the_default_of_their_family() {
        let mut one = gateway("one", &["10.0.0.1-10.0.0.4", "fd00::1"]);
        one.sources = nets(&["192.168.0.0/24", "192.168.1.0/24", "fd01::/64"]);
        one.defaults = vec![ip("10.0.0.3")];
        let sources = |address| one.egress_ip(ip(address), Claim::First).sources;
        assert_eq!(
            sources("10.0.0.3"),
            nets(&["192.168.0.0/24", "192.168.1.0/24"])
        );
        assert_eq!(sources("fd00::1"), nets(&["fd01::/64"]));
        assert_eq!(sources("10.0.0.1"), []);
    }

    #[test]
    fn without_a_default_each_source_leaves_from_exactly_one_address_and_keeps_it() {
        let mut one = gateway("one", &["10.0.0.1-10.0.0.8"]);
        one.sources = (0..64)
            .map(|n| format!("192.168.{n}.0/24").parse().unwrap())
            .collect();
        let owner = |gateway: &Gateway, source: &IpNet| -> Vec<IpAddr> {
            let holds = |address: &IpAddr| {
                gateway
                    .egress_ip(*address, Claim::First)
                    .sources
                    .contains(source)
            };
            gateway.pool.iter().filter(holds).collect()
        };
        let mut larger = one.clone();
        larger.pool = Pool::parse(&["10.0.0.1-10.0.0.9"]).unwrap();
        for source in &one.sources {
            let before = owner(&one, source);
            assert_eq!(before.len(), 1);
            let after = owner(&larger, source);
            assert!(after == before || after == [ip("10.0.0.9")], "{source}");
        }
    }
}
