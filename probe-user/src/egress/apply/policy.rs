//! Policy routes: what a node with several uplinks needs so that traffic leaves by the one that has
//! its egress IP. With one uplink, nothing.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

use super::super::types::EgressIp;

/// Table of the interface of index n: this plus n.
pub(crate) const TABLES: u32 = 0x7070_0000;
/// Priority of our rules: behind `local` (0), ahead of `main` (32766).
pub(crate) const PRIORITY: u32 = 17_000;

/// A default route that the node has anyway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Uplink {
    pub(crate) link: u32,
    pub(crate) gateway: IpAddr,
    /// The lowest goes first.
    pub(crate) metric: u32,
    /// Whether it is in the table `main`.
    pub(crate) main: bool,
}

/// A rule of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PolicyRule {
    pub(crate) source: IpNet,
    pub(crate) table: PolicyTable,
}

/// Where a rule of ours looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PolicyTable {
    /// In `main`, for anything but a default route: what is near stays near.
    Main,
    /// In the table of an interface, for its default route.
    Of(u32),
}

/// The default route in the table of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PolicyRoute {
    pub(crate) link: u32,
    pub(crate) gateway: IpAddr,
}

/// All rules and routes of ours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) rules: BTreeSet<PolicyRule>,
    pub(crate) routes: BTreeSet<PolicyRoute>,
}

impl Policy {
    /// The policy for `held`, egress IPs with the interfaces by which their traffic leaves; and what
    /// is missing for it, for people.
    pub(crate) fn new<'a>(
        held: impl IntoIterator<Item = (&'a EgressIp, u32)>,
        uplinks: &[Uplink],
    ) -> (Self, Vec<String>) {
        let mut policy = Self::default();
        let mut problems = Vec::new();
        for (egress_ip, link) in held {
            if let Err(problem) = policy.steer(egress_ip, link, uplinks) {
                problems.push(problem);
            }
        }
        (policy, problems)
    }

    fn steer(&mut self, egress_ip: &EgressIp, link: u32, uplinks: &[Uplink]) -> Result<(), String> {
        let address = egress_ip.address;
        let same_family = |it: &&Uplink| it.gateway.is_ipv4() == address.is_ipv4();
        let main = || uplinks.iter().filter(same_family).filter(|it| it.main);
        let Some(best) = main().map(|it| it.metric).min() else {
            return Ok(());
        };
        if egress_ip.sources.is_empty() || main().all(|it| it.metric > best || it.link == link) {
            return Ok(());
        }
        let own = uplinks
            .iter()
            .filter(same_family)
            .filter(|it| it.link == link);
        let own = own.min_by_key(|it| it.metric).ok_or_else(|| {
            format!("no default route leaves by the interface of {address}: nothing can be steered there")
        })?;
        self.routes.insert(PolicyRoute {
            link,
            gateway: own.gateway,
        });
        let sources = egress_ip
            .sources
            .iter()
            .copied()
            .chain([IpNet::from(address)]);
        for source in sources.filter(|it| it.addr().is_ipv4() == address.is_ipv4()) {
            for table in [PolicyTable::Main, PolicyTable::Of(link)] {
                let source = source.trunc();
                self.rules.insert(PolicyRule { source, table });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::types::Claim;
    use super::*;

    fn egress_ip() -> EgressIp {
        EgressIp {
            gateway: "g".to_owned(),
            address: "10.78.0.100".parse().unwrap(),
            claim: Claim::First,
            sources: vec!["10.99.0.0/24".parse().unwrap()],
            interface: None,
            routed: false,
        }
    }

    fn uplink(link: u32, metric: u32) -> Uplink {
        Uplink {
            link,
            gateway: format!("10.{link}.0.254").parse().unwrap(),
            metric,
            main: true,
        }
    }

    #[test]
    fn one_uplink_needs_nothing() {
        let (policy, problems) = Policy::new([(&egress_ip(), 2)], &[uplink(2, 0)]);
        assert_eq!((policy, problems.len()), (Policy::default(), 0));
    }

    #[test]
    fn the_worse_uplink_gets_a_table_with_its_gateway() {
        let (policy, _) = Policy::new([(&egress_ip(), 3)], &[uplink(2, 0), uplink(3, 100)]);
        let route = PolicyRoute {
            link: 3,
            gateway: "10.3.0.254".parse().unwrap(),
        };
        assert_eq!(policy.routes, BTreeSet::from([route]));
        assert_eq!(policy.rules.len(), 4);
    }

    #[test]
    fn uplinks_of_equal_metric_share_the_traffic_and_so_need_a_policy() {
        let (policy, _) = Policy::new([(&egress_ip(), 3)], &[uplink(2, 0), uplink(3, 0)]);
        assert!(!policy.rules.is_empty());
    }

    #[test]
    fn an_interface_without_a_default_route_is_a_problem() {
        let (policy, problems) = Policy::new([(&egress_ip(), 3)], &[uplink(2, 0)]);
        assert_eq!(policy, Policy::default());
        assert_eq!(problems.len(), 1);
    }
}
