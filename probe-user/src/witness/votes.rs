//! What the votes of this witness may still do.

use std::collections::HashMap;
use std::time::Instant;

use probe_ebpf::wire::NodeId;

/// The votes for one node, by when the newest reply arrived that one of them echoed.
#[derive(Clone, Copy, Debug)]
struct Cast {
    /// Under a lower floor than the stored one.
    below: Option<Instant>,
    /// Under any floor, as far as the prober was asked.
    newest: Option<Instant>,
}

/// The votes for all nodes.
#[derive(Debug)]
pub(super) struct Votes {
    /// When the process of a witness began that is older than its process: what it had echoed before
    /// is not known, but nothing is newer.
    start: Option<Instant>,
    nodes: HashMap<u64, Cast>,
}

impl Votes {
    pub(super) fn new(start: Option<Instant>) -> Self {
        let nodes = HashMap::new();
        Self { start, nodes }
    }

    /// No vote for the node so far has echoed a newer reply.
    pub(super) fn note(&mut self, node: NodeId, echoed: Option<Instant>) {
        let cast = self.cast(node);
        cast.newest = cast.newest.max(echoed);
    }

    /// The votes noted so far were cast under lower floors than those to come.
    pub(super) fn raised(&mut self, node: NodeId) {
        let cast = self.cast(node);
        cast.below = cast.below.max(cast.newest);
    }

    /// When the newest reply arrived that a vote under a lower floor than the stored one may have
    /// echoed; `None`: there was no such vote.
    pub(super) fn below(&self, node: NodeId) -> Option<Instant> {
        self.nodes
            .get(&node.0)
            .map_or(self.start, |cast| cast.below)
    }

    fn cast(&mut self, node: NodeId) -> &mut Cast {
        let below = self.start;
        self.nodes.entry(node.0).or_insert(Cast {
            below,
            newest: None,
        })
    }
}
