//! What is kept of a survey: enough for metrics.

use std::time::Instant;

use probe_user::tunnels::Verdict;

use super::TunnelEnd;
use crate::api::TunnelMatrix;

/// Pairs that are listed by name at most.
const MOST_LISTED: usize = 256;

/// What nodes said when they were last asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// When that was.
    pub asked: Instant,
    /// A node, another one, and what flows between them from the first one's view.
    pub pairs: Vec<(String, String, Verdict)>,
}

impl Summary {
    /// Of what nodes said at `asked`.
    pub fn new(asked: Instant, matrix: &TunnelMatrix) -> Self {
        let pair =
            |pair: &crate::api::TunnelPair| (pair.node.clone(), pair.peer.clone(), pair.verdict);
        Self {
            asked,
            pairs: matrix.pairs.iter().map(pair).collect(),
        }
    }

    /// Without nodes that are not among these any more.
    #[must_use]
    pub fn among(mut self, nodes: &[TunnelEnd]) -> Self {
        let is_there = |name: &String| nodes.iter().any(|end| end.node == *name);
        self.pairs
            .retain(|(node, peer, _)| is_there(node) && is_there(peer));
        self
    }

    /// The pairs between which packets flow one way only, at most 256 of them.
    pub fn one_way(&self) -> impl Iterator<Item = (&str, &str, Verdict)> {
        let pairs = self.pairs.iter();
        let one_way = pairs.filter(|(_, _, verdict)| verdict.is_one_way());
        one_way
            .take(MOST_LISTED)
            .map(|(node, peer, verdict)| (node.as_str(), peer.as_str(), *verdict))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(pairs: impl IntoIterator<Item = (u32, u32, Verdict)>) -> Summary {
        let pairs = pairs.into_iter();
        let name = |number: u32| format!("n{number}");
        Summary {
            asked: Instant::now(),
            pairs: pairs
                .map(|(a, b, verdict)| (name(a), name(b), verdict))
                .collect(),
        }
    }

    fn end(node: &str) -> TunnelEnd {
        TunnelEnd {
            node: node.to_owned(),
            addresses: Vec::new(),
            tunnel_addresses: Vec::new(),
        }
    }

    #[test]
    fn a_pair_goes_with_either_of_its_nodes() {
        let pairs = [(1, 2), (2, 1), (1, 3), (3, 2)].map(|(a, b)| (a, b, Verdict::Idle));
        let left = summary(pairs).among(&[end("n1"), end("n2")]);
        assert_eq!(left.pairs, summary([pairs[0], pairs[1]]).pairs);
    }

    #[test]
    fn only_pairs_that_deserve_attention_are_listed_and_not_too_many() {
        let verdicts = [Verdict::BothWays, Verdict::SentOnly, Verdict::Idle];
        let few = summary((0..3).map(|it| (it, 9, verdicts[it as usize])));
        assert_eq!(
            few.one_way().collect::<Vec<_>>(),
            [("n1", "n9", Verdict::SentOnly)]
        );
        let many = summary((0..1000).map(|it| (it, 9, Verdict::ReceivedOnly)));
        assert_eq!(many.one_way().count(), MOST_LISTED);
    }
}
