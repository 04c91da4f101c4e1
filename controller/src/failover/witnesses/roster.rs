//! Who votes on nodes' leases, and in which set of votes.

use serde::{Deserialize, Serialize};

/// A witness: an agent, and the memory that it has of what it promised.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Member {
    /// Its node.
    pub node: String,
    /// Which memory it has; one that has lost it is another witness.
    #[serde(with = "hexadecimal")]
    pub instance: u64,
}

/// All witnesses. Each node has a set of its own, since none is its own witness: they are one more
/// than a set has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roster {
    /// Grows with each change; 0: there never was one.
    pub version: u64,
    /// In the order of their slots; the last one stands in for each of the others on its own node.
    /// None: nobody votes.
    pub members: Vec<Member>,
}

impl Roster {
    /// Whose votes extend the lease of `node`, slot by slot.
    pub fn set<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a Member> {
        let (spare, seated) = match self.members.split_last() {
            Some((spare, seated)) => (Some(spare), seated),
            None => (None, &[][..]),
        };
        let seat = move |member: &'a Member| match member.node == node {
            true => spare,
            false => Some(member),
        };
        seated.iter().filter_map(seat)
    }

    /// Whether a witness on `node` is in the set of `watched`.
    pub(super) fn watches(&self, node: &str, watched: &str) -> bool {
        let Some((spare, seated)) = self.members.split_last() else {
            return false;
        };
        let is_seated = |node: &str| seated.iter().any(|member| member.node == node);
        match is_seated(node) {
            true => watched != node,
            false => spare.node == node && is_seated(watched),
        }
    }

    /// The next one, with these members.
    pub(super) fn succeeded_by(&self, members: Vec<Member>) -> Self {
        Self {
            version: self.version + 1,
            members,
        }
    }
}

/// 16 hexadecimal digits: JSON's numbers hold only 53 bits everywhere.
mod hexadecimal {
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
    pub(super) fn serialize<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{number:016x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = String::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roster(nodes: &[&str]) -> Roster {
        let member = |(index, node): (usize, &&str)| Member {
            node: (*node).to_owned(),
            instance: index as u64 + 1,
        };
        Roster {
            version: 1,
            members: nodes.iter().enumerate().map(member).collect(),
        }
    }

    fn set(roster: &Roster, node: &str) -> Vec<u64> {
        roster.set(node).map(|member| member.instance).collect()
    }

    #[test]
    fn the_last_one_stands_in_on_a_witnesss_own_node() {
        let roster = roster(&["a", "b", "c", "d"]);
        assert_eq!(set(&roster, "elsewhere"), [1, 2, 3]);
        assert_eq!(set(&roster, "b"), [1, 4, 3]);
        assert_eq!(set(&roster, "d"), [1, 2, 3]);
    }

    #[test]
    fn a_witness_watches_the_nodes_in_whose_sets_it_is() {
        let roster = roster(&["a", "b", "c", "d"]);
        for node in ["a", "b", "c", "d", "elsewhere"] {
            for watched in ["a", "b", "c", "d", "elsewhere"] {
                let is_in = roster.set(watched).any(|member| member.node == node);
                assert_eq!(roster.watches(node, watched), is_in, "{node} {watched}");
            }
        }
    }

    #[test]
    fn without_members_nobody_votes() {
        assert!(set(&roster(&[]), "a").is_empty());
    }

    #[test]
    fn an_instance_is_kept_to_the_last_bit() {
        let mut before = roster(&["a", "b"]);
        before.members[0].instance = u64::MAX - 1;
        let text = serde_json::to_string(&before).unwrap();
        assert!(text.contains("\"fffffffffffffffe\""), "{text}");
        let after: Roster = serde_json::from_str(&text).unwrap();
        assert_eq!(after, before);
    }
}
