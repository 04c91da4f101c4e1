//! From nodes as the file gives them to nodes that can be monitored.

use std::collections::HashMap;
use std::net::IpAddr;

use probe_user::keys::ClusterKeys;

use crate::daemon::{NodeSettings, parse_address};
use crate::monitor::NodeSpec;

/// What is wrong with one node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("node {node}: address {address:?} is not accepted: {problem}")]
pub struct Problem {
    /// Its name.
    pub node: String,
    /// The address.
    pub address: String,
    /// What is wrong with it.
    pub problem: &'static str,
}

/// Nodes that can be monitored, and those that cannot as they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// The nodes, in the file's order.
    pub specs: Vec<NodeSpec>,
    /// Nodes with a problem; they are as they were before, or absent if they are new.
    pub problems: Vec<Problem>,
}

/// Nodes that cannot be together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodesError {
    /// A node whose new addresses are wrong keeps one that goes to another node.
    #[error(
        "address {address} is given to node {node}, but node {owner} still has it, \
         since its own new addresses are wrong ({problem})"
    )]
    StillTaken {
        /// The address.
        address: IpAddr,
        /// Whom the file gives it to.
        node: String,
        /// Who keeps it.
        owner: String,
        /// Why.
        problem: Box<Problem>,
    },
}

/// Checks addresses and adds keys. A node with a wrong address stays as it is in `before`.
///
/// # Errors
///
/// If nodes that stay as they are contradict others.
pub fn resolve(
    nodes: &[NodeSettings],
    keys: &ClusterKeys,
    before: &[NodeSpec],
) -> Result<Resolved, NodesError> {
    let before: HashMap<&str, &NodeSpec> = before
        .iter()
        .map(|spec| (spec.name.as_str(), spec))
        .collect();
    let mut resolved = Resolved::default();
    for node in nodes {
        let (addresses, problem) = match parse_addresses(node) {
            Ok(addresses) => (addresses, None),
            Err(problem) => {
                resolved.problems.push(problem.clone());
                match before.get(node.name.as_str()) {
                    Some(spec) => (spec.addresses.clone(), Some(problem.to_string())),
                    None => continue,
                }
            }
        };
        resolved.specs.push(NodeSpec {
            name: node.name.clone(),
            addresses,
            labels: node.labels.clone(),
            keys: keys.node_keys(&node.name),
            problem,
        });
    }
    check_taken(&resolved)?;
    Ok(resolved)
}

fn check_taken(resolved: &Resolved) -> Result<(), NodesError> {
    for problem in &resolved.problems {
        let kept = resolved.specs.iter().find(|spec| spec.name == problem.node);
        for &address in kept.iter().flat_map(|spec| &spec.addresses) {
            let other =
                |spec: &&NodeSpec| spec.name != problem.node && spec.addresses.contains(&address);
            if let Some(other) = resolved.specs.iter().find(other) {
                return Err(NodesError::StillTaken {
                    address,
                    node: other.name.clone(),
                    owner: problem.node.clone(),
                    problem: Box::new(problem.clone()),
                });
            }
        }
    }
    Ok(())
}

fn parse_addresses(node: &NodeSettings) -> Result<Vec<IpAddr>, Problem> {
    let parse = |text: &String| {
        parse_address(text).map_err(|problem| Problem {
            node: node.name.clone(),
            address: text.clone(),
            problem,
        })
    };
    node.addresses.iter().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, addresses: &[&str]) -> NodeSettings {
        NodeSettings {
            name: name.to_owned(),
            addresses: addresses.iter().map(|text| (*text).to_owned()).collect(),
            labels: Default::default(),
            tunnel_addresses: Vec::new(),
        }
    }

    fn ips(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn good_nodes_become_specs_with_their_keys() {
        let keys = ClusterKeys::generate(1).unwrap();
        let resolved = resolve(&[node("n1", &["10.0.0.1", "fd00::1"])], &keys, &[]).unwrap();
        assert_eq!(resolved.problems, []);
        assert_eq!(resolved.specs[0].addresses, ips(&["10.0.0.1", "fd00::1"]));
        assert_eq!(resolved.specs[0].keys, keys.node_keys("n1"));
    }

    #[test]
    fn addresses_that_cannot_be_one_nodes_are_refused_by_name() {
        let keys = ClusterKeys::generate(1).unwrap();
        for bad in [
            "10.0.0",
            "",
            "0.0.0.0",
            "::",
            "224.0.0.1",
            "255.255.255.255",
            "fe80::1",
        ] {
            let resolved = resolve(&[node("n1", &["10.0.0.1", bad])], &keys, &[]).unwrap();
            assert_eq!(resolved.specs, [], "{bad}");
            let message = resolved.problems[0].to_string();
            assert!(
                message.contains("node n1") && message.contains(bad),
                "{message}"
            );
        }
    }

    #[test]
    fn an_ipv4_address_in_ipv6_form_is_the_ipv4_address() {
        let keys = ClusterKeys::generate(1).unwrap();
        let resolved = resolve(&[node("n1", &["::ffff:10.0.0.1"])], &keys, &[]).unwrap();
        assert_eq!(resolved.specs[0].addresses, ips(&["10.0.0.1"]));
    }

    #[test]
    fn a_node_with_a_bad_address_keeps_its_old_ones_and_the_others_go_on() {
        let keys = ClusterKeys::generate(1).unwrap();
        let before = resolve(&[node("n1", &["10.0.0.1"])], &keys, &[])
            .unwrap()
            .specs;
        let nodes = [node("n1", &["10.0.0.x"]), node("n2", &["10.0.0.2"])];
        let resolved = resolve(&nodes, &keys, &before).unwrap();
        assert_eq!(resolved.specs[0].addresses, ips(&["10.0.0.1"]));
        assert!(
            resolved.specs[0]
                .problem
                .as_ref()
                .unwrap()
                .contains("10.0.0.x")
        );
        assert_eq!(resolved.specs[1].name, "n2");
        assert_eq!(resolved.problems.len(), 1);
    }

    #[test]
    fn an_address_that_a_node_with_a_problem_keeps_cannot_go_to_another() {
        let keys = ClusterKeys::generate(1).unwrap();
        let before = resolve(&[node("n1", &["10.0.0.1"])], &keys, &[])
            .unwrap()
            .specs;
        let nodes = [node("n1", &["10.0.0.x"]), node("n2", &["10.0.0.1"])];
        let error = resolve(&nodes, &keys, &before).unwrap_err().to_string();
        assert!(error.contains("10.0.0.1 is given to node n2"), "{error}");
    }
}
