//! Tunnels between nodes, as their counters tell: who the other end is, and whether packets flow both
//! ways.
//!
//! Pure: the counters themselves are in [`crate::kernel`], and what travels to a controller in
//! [`crate::channel`].

mod names;
mod verdict;

use crate::kernel::Peer;

pub use names::{Named, PeerNames};
pub use verdict::{Ages, Limits, Verdict, judge};

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
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::Duration;

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
    fn a_report_lists_every_node_and_the_newest_of_others() {
        let names = PeerNames::default();
        names.replace(vec![Named {
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
