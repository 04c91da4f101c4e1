//! Gateways: which nodes may own which addresses, and for whom.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use probe_user::egress::{self, Claim, EgressIp};

use super::placement::{address_hash, score, source_hash};
use super::{GatewayError, Pool, Selector};

/// A gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// Its name, unique.
    pub name: String,
    /// Which nodes are candidates.
    pub selector: Selector,
    /// Its egress IPs.
    pub pool: Pool,
    /// From which IPv4 or IPv6 address of the pool its sources' traffic leaves; without one, each
    /// source has an address of its own choice.
    pub defaults: Vec<IpAddr>,
    /// Whether it serves only those of its sources that no other gateway names.
    pub cluster_default: bool,
    /// Whose traffic leaves from its addresses.
    pub sources: Vec<IpNet>,
    /// What of `sources` is others': see [`share_sources`].
    pub except: Vec<IpNet>,
    /// On which interface of a node its addresses are configured; `None`: on the one whose subnet
    /// holds them.
    pub interface: Option<String>,
    /// Its addresses are routed to the nodes, not resolved on a link.
    pub routed: bool,
    /// At most so many of its addresses on one node; `None`: as many as the balance asks for.
    pub max_per_node: Option<usize>,
}

/// What is left of `prefix` without `others`, as prefixes.
fn without(prefix: IpNet, others: &[IpNet]) -> Vec<IpNet> {
    if others.iter().any(|other| other.contains(&prefix)) {
        return Vec::new();
    }
    let inside: Vec<IpNet> = others
        .iter()
        .copied()
        .filter(|other| prefix.contains(other))
        .collect();
    match prefix.subnets(prefix.prefix_len() + 1) {
        Ok(halves) if !inside.is_empty() => {
            halves.flat_map(|half| without(half, &inside)).collect()
        }
        _ => vec![prefix],
    }
}

impl Gateway {
    /// What is wrong with it, whatever others there are.
    pub(super) fn check_alone(&self) -> Result<(), GatewayError> {
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
        self.selector.selects(labels)
    }

    /// What an owner of `address` is told of it.
    pub fn egress_ip(&self, address: IpAddr, claim: Claim) -> EgressIp {
        let leaves = |source: &IpNet| self.leaving(*source) == Some(address);
        EgressIp {
            gateway: self.name.clone(),
            address,
            claim,
            sources: self.served(leaves),
            interface: self.interface.clone(),
            routed: self.routed,
        }
    }

    /// What candidates are told of it.
    pub fn told(&self) -> egress::Gateway {
        egress::Gateway {
            name: self.name.clone(),
            egress_ips: self.pool.prefixes(),
            sources: self.served(|_| true),
            interface: self.interface.clone(),
            routed: self.routed,
        }
    }

    /// Those of its sources, but for what is others'.
    fn served(&self, which: impl Fn(&IpNet) -> bool) -> Vec<IpNet> {
        let sources = self.sources.iter().copied().filter(which);
        sources
            .flat_map(|source| without(source, &self.except))
            .collect()
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
pub(crate) mod tests {
    use super::*;

    pub(crate) fn gateway(name: &str, pool: &[&str]) -> Gateway {
        Gateway {
            name: name.to_owned(),
            selector: Selector::default(),
            pool: Pool::parse(pool).unwrap(),
            defaults: Vec::new(),
            cluster_default: false,
            sources: Vec::new(),
            except: Vec::new(),
            interface: None,
            routed: false,
            max_per_node: None,
        }
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn nets(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
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
