//! What is read off Node objects.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use serde::Deserialize;

use crate::daemon::parse_address;

/// Where OVN-Kubernetes keeps the subnets of a node's Pods. It gives its management port,
/// `ovn-k8s-mp0`, the second address of each.
const OVN_SUBNETS: &str = "k8s.ovn.org/node-subnets";

/// A node, as far as it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeFacts {
    /// The object's, for events and owner references.
    pub(super) uid: String,
    pub(super) labels: BTreeMap<String, String>,
    /// Where it is probed.
    pub(super) addresses: Vec<IpAddr>,
    /// Its InternalIPs: where its tunnels end.
    pub(super) internal: Vec<IpAddr>,
    /// What is wrong with what it says of its addresses.
    pub(super) problem: Option<String>,
}

impl NodeFacts {
    /// Reads a node. `annotation` is the one that gives management addresses, if there is one.
    pub(super) fn read(node: &Node, annotation: Option<&str>) -> Self {
        let internal = internal_addresses(node);
        let (addresses, problem) = match management_addresses(node, annotation) {
            Ok(Some(addresses)) => (addresses, None),
            Ok(None) => (internal.clone(), None),
            Err(problem) => (internal.clone(), Some(problem)),
        };
        Self {
            uid: node.uid().unwrap_or_default(),
            labels: node.labels().clone(),
            addresses,
            internal,
            problem,
        }
    }
}

/// What a node's annotations say, if they say anything.
fn management_addresses(
    node: &Node,
    annotation: Option<&str>,
) -> Result<Option<Vec<IpAddr>>, String> {
    let annotations = node.annotations();
    let own = annotation.and_then(|key| Some((key, annotations.get(key)?)));
    if let Some((key, text)) = own {
        let wrong = |error| format!("annotation {key}: {text:?} is not accepted: {error}");
        let parse = |part: &str| parse_address(part.trim()).map_err(wrong);
        return text
            .split(',')
            .map(parse)
            .collect::<Result<_, _>>()
            .map(Some);
    }
    let Some(text) = annotations.get(OVN_SUBNETS) else {
        return Ok(None);
    };
    let addresses = ovn_addresses(text)
        .map_err(|error| format!("annotation {OVN_SUBNETS}: {text:?} is not accepted: {error}"))?;
    Ok((!addresses.is_empty()).then_some(addresses))
}

/// One subnet, or several of a dual-stack node: `{"default": "10.244.0.0/24"}`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Subnets {
    One(IpNet),
    Several(Vec<IpNet>),
}

fn ovn_addresses(text: &str) -> Result<Vec<IpAddr>, String> {
    let networks: BTreeMap<String, Subnets> =
        serde_json::from_str(text).map_err(|error| error.to_string())?;
    let subnets = match networks.get("default") {
        None => &[][..],
        Some(Subnets::One(subnet)) => std::slice::from_ref(subnet),
        Some(Subnets::Several(subnets)) => subnets,
    };
    let second = |subnet: &IpNet| {
        let address = subnet.hosts().take(4).find(|it| is_second(*it, subnet));
        address.ok_or_else(|| format!("{subnet} has no second address"))
    };
    subnets.iter().map(second).collect()
}

fn is_second(address: IpAddr, subnet: &IpNet) -> bool {
    match (address, subnet.network()) {
        (IpAddr::V4(address), IpAddr::V4(network)) => address.to_bits() == network.to_bits() + 2,
        (IpAddr::V6(address), IpAddr::V6(network)) => address.to_bits() == network.to_bits() + 2,
        _ => false,
    }
}

fn internal_addresses(node: &Node) -> Vec<IpAddr> {
    let status = node.status.as_ref();
    let addresses = status.and_then(|status| status.addresses.as_ref());
    let internal = addresses
        .into_iter()
        .flatten()
        .filter(|it| it.type_ == "InternalIP");
    internal
        .filter_map(|it| parse_address(&it.address).ok())
        .collect()
}

/// Leaves an address that several nodes claim to the first of them by name, since one answer cannot be
/// told from another; says so of the others.
pub(super) fn settle_claims(nodes: &mut BTreeMap<String, NodeFacts>) {
    let mut owners: BTreeMap<IpAddr, String> = BTreeMap::new();
    for (name, node) in nodes {
        let problem = &mut node.problem;
        node.addresses.retain(|address| {
            let owner = owners.entry(*address).or_insert_with(|| name.clone());
            if owner != name {
                *problem = Some(format!("node {owner} has address {address}, too"));
            }
            owner == name
        });
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{NodeAddress, NodeStatus};

    use super::*;

    fn node(annotations: &[(&str, &str)], addresses: &[&str]) -> Node {
        let internal = |address: &&str| NodeAddress {
            address: (*address).to_owned(),
            type_: "InternalIP".to_owned(),
        };
        let hostname = NodeAddress {
            address: "n1".to_owned(),
            type_: "Hostname".to_owned(),
        };
        let mut node = Node::default();
        node.annotations_mut().extend(
            annotations
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned())),
        );
        node.status = Some(NodeStatus {
            addresses: Some(addresses.iter().map(internal).chain([hostname]).collect()),
            ..NodeStatus::default()
        });
        node
    }

    fn read(annotations: &[(&str, &str)]) -> NodeFacts {
        let node = node(annotations, &["192.0.2.1", "2001:db8::1"]);
        NodeFacts::read(&node, Some("example.org/management"))
    }

    fn ips(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn a_node_is_probed_at_its_internal_addresses() {
        let facts = read(&[]);
        assert_eq!(facts.addresses, ips(&["192.0.2.1", "2001:db8::1"]));
        assert_eq!(facts.problem, None);
    }

    #[test]
    fn the_configured_annotation_comes_before_that_of_ovn_kubernetes_and_that_before_the_rest() {
        let subnets = r#"{"default":["10.244.1.0/24","fd00:10:244:2::/64"]}"#;
        let ovn = (OVN_SUBNETS, subnets);
        assert_eq!(
            read(&[ovn]).addresses,
            ips(&["10.244.1.2", "fd00:10:244:2::2"])
        );
        let own = ("example.org/management", "198.51.100.1, 2001:db8:1::1");
        assert_eq!(
            read(&[ovn, own]).addresses,
            ips(&["198.51.100.1", "2001:db8:1::1"])
        );
        let facts = read(&[ovn]);
        assert_eq!(facts.internal, ips(&["192.0.2.1", "2001:db8::1"]));
    }

    #[test]
    fn a_single_subnet_may_be_written_without_a_list() {
        let facts = read(&[(OVN_SUBNETS, r#"{"default":"10.244.1.0/24"}"#)]);
        assert_eq!(facts.addresses, ips(&["10.244.1.2"]));
    }

    #[test]
    fn an_annotation_that_is_wrong_is_reported_and_passed_over() {
        for annotation in [
            ("example.org/management", "10.0.0"),
            (OVN_SUBNETS, "10.244.1.0/24"),
            (OVN_SUBNETS, r#"{"default":"10.244.1.0/31"}"#),
        ] {
            let facts = read(&[annotation]);
            assert_eq!(facts.addresses, facts.internal);
            let problem = facts.problem.unwrap();
            assert!(problem.contains(annotation.0), "{problem}");
        }
    }

    #[test]
    fn an_address_belongs_to_one_node_only() {
        let facts = || read(&[]);
        let mut nodes = BTreeMap::from([("a".to_owned(), facts()), ("b".to_owned(), facts())]);
        settle_claims(&mut nodes);
        assert_eq!(nodes["a"].addresses.len(), 2);
        assert!(nodes["b"].addresses.is_empty());
        assert!(nodes["b"].problem.as_ref().unwrap().contains("node a"));
    }
}
