//! Tunnels between nodes, as their counters tell: who the other end is, and whether packets flow both
//! ways.
//!
//! Pure: the counters themselves are in [`crate::kernel`], and what travels to a controller in
//! [`crate::channel`].

mod names;
mod names_file;
mod verdict;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::kernel::Peer;

pub use names::{Named, PeerNames};
pub use names_file::NamesFile;
pub use verdict::{Ages, Limits, Verdict, judge};

/// What a controller wants to know of a node's tunnels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TunnelQuestion {
    /// The cluster's nodes, for the node to know; none: it goes on with those that it knows. All nodes
    /// are told the same, thousands of names in a large cluster.
    pub nodes: Arc<[Named]>,
    /// Only of tunnels to these addresses; none: of all.
    pub peers: Vec<IpAddr>,
}

impl TunnelQuestion {
    /// Of all tunnels, and the nodes that there are.
    pub fn among(nodes: Arc<[Named]>) -> Self {
        let peers = Vec::new();
        Self { nodes, peers }
    }

    /// Of tunnels that end at `peers`.
    pub fn about(peers: Vec<IpAddr>) -> Self {
        let nodes = Arc::default();
        Self { nodes, peers }
    }

    /// Whether it is about the tunnels to this address.
    pub fn concerns(&self, address: IpAddr) -> bool {
        let mut peers = self.peers.iter().map(IpAddr::to_canonical);
        self.peers.is_empty() || peers.any(|peer| peer == address)
    }
}

/// What a node knows of its tunnels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TunnelReport {
    /// Whether it counts tunnels at all.
    pub enabled: bool,
    /// On which devices that should be it does not, and why, for people.
    pub not_counted: Vec<String>,
    /// Its tunnels.
    pub tunnels: Vec<Peer>,
    /// How many more there are.
    pub left_out: u32,
}

/// Tunnels to others than the nodes that a report lists at most.
const MOST_OTHERS: usize = 256;

impl TunnelReport {
    /// How long before the report the last packet was received.
    pub fn last_received(&self) -> Option<Duration> {
        let ages = self.tunnels.iter().filter_map(|it| it.received.age);
        ages.min()
    }

    /// Leaves out what nobody asked for: of the tunnels to others than `names`, all but those that
    /// were in use last.
    #[must_use]
    pub fn limited(mut self, names: &PeerNames) -> Self {
        let (nodes, mut others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.tunnels)
            .into_iter()
            .partition(|peer| names.name(peer.address).is_some());
        others.sort_by_key(|peer| Ages::from(peer).newest());
        self.left_out = others.len().saturating_sub(MOST_OTHERS) as u32;
        others.truncate(MOST_OTHERS);
        self.tunnels = nodes;
        self.tunnels.extend(others);
        self
    }
}

impl From<&Peer> for Ages {
    fn from(peer: &Peer) -> Self {
        Self {
            received: peer.received.age,
            sent: peer.sent.age,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use probe_ebpf::maps::Encapsulation;

    use super::*;
    use crate::kernel::Traffic;

    fn peer(number: u32) -> Peer {
        Peer {
            address: IpAddr::V4(Ipv4Addr::from(number)),
            encapsulation: Encapsulation::Vxlan,
            vni: None,
            received: Traffic::default(),
            sent: Traffic {
                packets: 1,
                bytes: 100,
                age: Some(Duration::from_millis(number.into())),
            },
        }
    }

    #[test]
    fn a_question_about_nobody_is_about_everybody() {
        let [mapped, other] = ["::ffff:10.0.0.1", "10.0.0.2"].map(|it| it.parse().unwrap());
        let question = TunnelQuestion::about(vec![mapped]);
        assert!(question.concerns(mapped.to_canonical()));
        assert!(!question.concerns(other));
        assert!(TunnelQuestion::default().concerns(other));
    }

    #[test]
    fn a_report_lists_every_node_and_the_newest_of_others() {
        let names = PeerNames::default();
        names.replace(&[Named {
            node: "n1".to_owned(),
            addresses: vec![Ipv4Addr::from(5000).into()],
        }]);
        let report = TunnelReport {
            tunnels: (1..=5000).rev().map(peer).collect(),
            ..TunnelReport::default()
        };
        let report = report.limited(&names);
        assert_eq!(report.tunnels.len(), 1 + MOST_OTHERS);
        assert_eq!(report.left_out as usize, 4999 - MOST_OTHERS);
        assert_eq!(report.tunnels[0], peer(5000));
        assert!(
            report.tunnels[1..]
                .iter()
                .all(|it| it.sent.age <= Some(Duration::from_millis(256)))
        );
    }
}
