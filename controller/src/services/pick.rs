//! Who is picked.

use std::collections::BTreeMap;

use probe_ebpf::wire::NodeId;

use crate::health::State;

/// A group of nodes of which one is picked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Name of the service.
    pub name: String,
    /// Labels that a node needs to be in the group.
    pub selector: BTreeMap<String, String>,
}

/// A node that may be in a group.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its labels.
    pub labels: &'a BTreeMap<String, String>,
    /// Its state.
    pub state: State,
}

impl Group {
    fn includes(&self, member: &Member<'_>) -> bool {
        self.selector
            .iter()
            .all(|(key, value)| member.labels.get(key) == Some(value))
    }

    /// Rendezvous hashing: services spread over nodes, and a node's coming or going concerns only
    /// those that it scores highest for.
    fn score(&self, node: &str) -> u64 {
        NodeId::of(&format!("{}\0{node}", self.name)).0
    }
}

/// Who is picked now. `current` stays for as long as it is in the group and not UNREACHABLE; anew only
/// AVAILABLE nodes are picked.
pub fn pick<'a>(
    group: &Group,
    current: Option<&str>,
    members: impl Iterator<Item = Member<'a>>,
) -> Option<&'a str> {
    let mut best: Option<(u64, &str)> = None;
    for member in members.filter(|member| group.includes(member)) {
        if Some(member.name) == current && member.state != State::Unreachable {
            return Some(member.name);
        }
        if member.state == State::Available {
            best = best.max(Some((group.score(member.name), member.name)));
        }
    }
    best.map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use State::{Available, Unavailable, Unknown, Unreachable};

    fn labels(zone: &str) -> BTreeMap<String, String> {
        BTreeMap::from([("zone".to_owned(), zone.to_owned())])
    }

    fn group(name: &str) -> Group {
        Group {
            name: name.to_owned(),
            selector: labels("a"),
        }
    }

    fn picked(current: Option<&str>, nodes: &[(&str, &str, State)]) -> Option<String> {
        let zones: Vec<_> = nodes.iter().map(|(_, zone, _)| labels(zone)).collect();
        let members = nodes.iter().zip(&zones).map(|(node, labels)| Member {
            name: node.0,
            labels,
            state: node.2,
        });
        pick(&group("dns"), current, members).map(str::to_owned)
    }

    #[test]
    fn only_an_available_node_of_the_group_is_picked() {
        let nodes = [
            ("n1", "b", Available),
            ("n2", "a", Unavailable),
            ("n3", "a", Unknown),
            ("n4", "a", Available),
        ];
        assert_eq!(picked(None, &nodes).as_deref(), Some("n4"));
        assert_eq!(picked(None, &nodes[..3]), None);
    }

    #[test]
    fn whoever_is_picked_stays_until_it_is_unreachable_or_leaves() {
        for state in [Available, Unavailable, Unknown] {
            let nodes = [("n1", "a", state), ("n2", "a", Available)];
            assert_eq!(picked(Some("n1"), &nodes).as_deref(), Some("n1"));
        }
        let unreachable = [("n1", "a", Unreachable), ("n2", "a", Available)];
        assert_eq!(picked(Some("n1"), &unreachable).as_deref(), Some("n2"));
        let left = [("n1", "b", Available), ("n2", "a", Available)];
        assert_eq!(picked(Some("n1"), &left).as_deref(), Some("n2"));
    }

    #[test]
    fn the_order_of_nodes_does_not_matter() {
        let mut nodes = [
            ("n1", "a", Available),
            ("n2", "a", Available),
            ("n3", "a", Available),
        ];
        let first = picked(None, &nodes);
        nodes.reverse();
        assert_eq!(picked(None, &nodes), first);
    }

    #[test]
    fn services_spread_over_nodes() {
        let labels = labels("a");
        let names: Vec<String> = (0..10).map(|index| format!("n{index}")).collect();
        let mut counts = BTreeMap::<&str, u32>::new();
        for index in 0..1000 {
            let members = names.iter().map(|name| Member {
                name,
                labels: &labels,
                state: Available,
            });
            let node = pick(&group(&format!("s{index}")), None, members);
            *counts.entry(node.unwrap()).or_default() += 1;
        }
        assert!(
            counts.len() == 10 && counts.values().all(|count| (50..200).contains(count)),
            "{counts:?}"
        );
    }
}
