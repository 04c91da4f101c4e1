//! What the interface says of tunnels.

use std::net::IpAddr;

use probe_user::tunnels::Verdict;
use serde::{Deserialize, Serialize};

use super::Timestamp;

/// What flows between nodes, as they have counted it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunnelMatrix {
    /// When the nodes were asked.
    pub at: Timestamp,
    /// Every node, ordered by name.
    pub nodes: Vec<TunnelNode>,
    /// The view of each node of each other one of which it, or the other one, has counted anything.
    /// Ordered by node, then by peer.
    pub pairs: Vec<TunnelPair>,
}

/// A node, and what it says for itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunnelNode {
    /// Its name.
    pub node: String,
    /// Where its tunnels end.
    pub addresses: Vec<IpAddr>,
    /// Why it is not known what it counts, or where it does not count; absent: all is well.
    pub problem: Option<String>,
}

/// What flows between a node and another one, from the node's view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunnelPair {
    /// Whose view it is.
    pub node: String,
    /// The other one.
    pub peer: String,
    /// Of all their tunnels, the one that deserves attention most.
    pub verdict: Verdict,
    /// Each kind of tunnel.
    pub tunnels: Vec<TunnelDetail>,
}

/// One kind of tunnel between two nodes, as one of them has counted it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunnelDetail {
    /// How packets are wrapped, such as `vxlan`.
    pub encap: String,
    /// What flows.
    pub verdict: Verdict,
    /// What the node has received.
    pub received: TunnelTraffic,
    /// What it has sent.
    pub sent: TunnelTraffic,
}

/// Packets of one direction, as they are on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunnelTraffic {
    /// Packets.
    pub packets: u64,
    /// Bytes from the Ethernet header on.
    pub bytes: u64,
    /// Since the last one, ms; absent: there has been none.
    pub last_seen_ms: Option<u64>,
}

impl TunnelMatrix {
    /// What a node sees of another one; `None`: nothing has been counted.
    pub fn pair(&self, node: &str, peer: &str) -> Option<&TunnelPair> {
        let pairs = self.pairs.iter();
        let mut found = pairs.filter(|pair| pair.node == node && pair.peer == peer);
        found.next()
    }

    /// What deserves attention, for people: of one node, or of all.
    pub fn sentences(&self, node: Option<&str>) -> Vec<String> {
        let wanted = |pair: &&TunnelPair| node.is_none_or(|node| pair.node == node);
        let one_way = |pair: &TunnelPair| {
            let tunnels = pair.tunnels.iter().filter(|it| it.verdict.is_one_way());
            let sentence = |it: &TunnelDetail| sentence(pair, it);
            tunnels.map(sentence).collect::<Vec<_>>()
        };
        self.pairs.iter().filter(wanted).flat_map(one_way).collect()
    }
}

fn sentence(pair: &TunnelPair, tunnel: &TunnelDetail) -> String {
    let TunnelPair { node, peer, .. } = pair;
    let encap = &tunnel.encap;
    let last = |traffic: &TunnelTraffic| match traffic.last_seen_ms {
        Some(ms) => format!("the last packet was {:.1} s ago", ms as f64 / 1000.0),
        None => "there has never been a packet".to_owned(),
    };
    match tunnel.verdict {
        Verdict::SentOnly => format!(
            "{node} sends {encap} packets to {peer}, but receives none from it: {}",
            last(&tunnel.received)
        ),
        _ => format!(
            "{node} receives {encap} packets from {peer}, but none of its own arrive there: of what \
             it sends {}",
            last(&tunnel.sent)
        ),
    }
}
