//! A whole of what nodes say of their tunnels. Pure: no clock, no socket.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use probe_ebpf::maps::Encapsulation;
use probe_user::kernel::{Peer, Traffic};
use probe_user::tunnels::{Ages, Limits, Named, TunnelReport, Verdict, judge};

use crate::api::{Timestamp, TunnelDetail, TunnelMatrix, TunnelNode, TunnelPair, TunnelTraffic};

/// A node, and what it says, or why it does not.
#[derive(Clone, Debug)]
pub struct Said {
    /// The node.
    pub node: Named,
    /// What it says.
    pub report: Result<TunnelReport, String>,
}

/// Somebody's having received a packet from a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Who.
    pub by: String,
    /// How.
    pub encapsulation: Encapsulation,
    /// How long before it said so.
    pub ago: Duration,
}

/// What all nodes say.
pub struct Survey {
    nodes: Vec<Said>,
    /// What each node has counted of each other one, by their places in `nodes`.
    counted: BTreeMap<(usize, usize), Tunnels>,
}

/// The tunnels between two nodes, however many addresses and networks.
type Tunnels = BTreeMap<Encapsulation, Counted>;

#[derive(Clone, Copy, Default)]
struct Counted {
    received: Traffic,
    sent: Traffic,
}

impl Survey {
    /// Of what these nodes say.
    pub fn new(mut nodes: Vec<Said>) -> Self {
        nodes.sort_by(|a, b| a.node.node.cmp(&b.node.node));
        let owners: HashMap<IpAddr, usize> = (0..)
            .zip(&nodes)
            .flat_map(|(index, said)| said.node.addresses.iter().map(move |it| (*it, index)))
            .collect();
        let mut counted: BTreeMap<(usize, usize), Tunnels> = BTreeMap::new();
        for (index, said) in nodes.iter().enumerate() {
            let tunnels = said.report.iter().flat_map(|report| &report.tunnels);
            for tunnel in tunnels {
                let peer = owners.get(&tunnel.address).filter(|peer| **peer != index);
                if let Some(&peer) = peer {
                    let tunnels = counted.entry((index, peer)).or_default();
                    tunnels.entry(tunnel.encapsulation).or_default().add(tunnel);
                }
            }
        }
        Self { nodes, counted }
    }

    /// Whether anybody says what it counts.
    pub fn is_of_use(&self) -> bool {
        self.nodes.iter().any(Said::counts)
    }

    /// Who has last received a packet from a node, if anybody ever has.
    pub fn last_heard(&self, node: &str) -> Option<Heard> {
        let index = self.nodes.iter().position(|it| it.node.node == node)?;
        let of_it = self.counted.iter().filter(|((_, peer), _)| *peer == index);
        let heard = of_it.flat_map(|((by, _), tunnels)| {
            tunnels.iter().filter_map(|(encapsulation, counted)| {
                Some(Heard {
                    by: self.nodes[*by].node.node.clone(),
                    encapsulation: *encapsulation,
                    ago: counted.received.age?,
                })
            })
        });
        heard.min_by_key(|heard| heard.ago)
    }

    /// What flows between all nodes, who were asked at `at`.
    pub fn matrix(&self, at: SystemTime, limits: Limits) -> TunnelMatrix {
        let everyone = 0..self.nodes.len();
        let pairs = everyone.clone().flat_map(|node| {
            let peers = everyone.clone().filter(move |peer| *peer != node);
            peers.filter_map(move |peer| self.pair(node, peer, limits))
        });
        TunnelMatrix {
            at: Timestamp(at),
            nodes: self.nodes.iter().map(Said::to_api).collect(),
            pairs: pairs.collect(),
        }
    }

    /// `None`: neither has counted anything, or nobody can say what the node has.
    fn pair(&self, node: usize, peer: usize, limits: Limits) -> Option<TunnelPair> {
        if !self.nodes[node].counts() {
            return None;
        }
        let nothing = Tunnels::new();
        let [own, other] =
            [(node, peer), (peer, node)].map(|pair| self.counted.get(&pair).unwrap_or(&nothing));
        let mut all: Vec<Encapsulation> = own.keys().chain(other.keys()).copied().collect();
        all.sort_unstable();
        all.dedup();
        let detail = |encapsulation: &Encapsulation| {
            let [own, other] =
                [own, other].map(|it| it.get(encapsulation).copied().unwrap_or_default());
            let other = self.nodes[peer].counts().then_some(other.ages());
            TunnelDetail {
                encap: encapsulation.label().to_owned(),
                verdict: judge(own.ages(), other, limits),
                received: to_api(own.received),
                sent: to_api(own.sent),
            }
        };
        let tunnels: Vec<_> = all.iter().map(detail).collect();
        let name = |index: usize| self.nodes[index].node.node.clone();
        Some(TunnelPair {
            node: name(node),
            peer: name(peer),
            verdict: worst(&tunnels)?,
            tunnels,
        })
    }
}

fn worst(tunnels: &[TunnelDetail]) -> Option<Verdict> {
    tunnels.iter().map(|tunnel| tunnel.verdict).max()
}

impl Said {
    /// Whether it says what it counts.
    fn counts(&self) -> bool {
        self.report.as_ref().is_ok_and(|report| report.enabled)
    }

    fn to_api(&self) -> TunnelNode {
        let problem = match &self.report {
            Err(why) => Some(why.clone()),
            Ok(report) if !report.enabled => Some("it counts no tunnels".to_owned()),
            Ok(report) => report.not_counted.first().cloned(),
        };
        TunnelNode {
            node: self.node.node.clone(),
            addresses: self.node.addresses.clone(),
            problem,
        }
    }
}

impl Counted {
    fn add(&mut self, tunnel: &Peer) {
        for (sum, traffic) in [
            (&mut self.received, tunnel.received),
            (&mut self.sent, tunnel.sent),
        ] {
            sum.packets += traffic.packets;
            sum.bytes += traffic.bytes;
            sum.age = sum.age.into_iter().chain(traffic.age).min();
        }
    }

    fn ages(&self) -> Ages {
        Ages {
            received: self.received.age,
            sent: self.sent.age,
        }
    }
}

fn to_api(traffic: Traffic) -> TunnelTraffic {
    TunnelTraffic {
        packets: traffic.packets,
        bytes: traffic.bytes,
        last_seen_ms: traffic.age.map(|age| age.as_millis() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(index: u8) -> Named {
        Named {
            node: format!("n{index}"),
            addresses: vec![address(index), IpAddr::from([10, 1, 0, index])],
        }
    }

    fn address(index: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, index])
    }

    fn tunnel(address: IpAddr, encapsulation: Encapsulation, ages: [Option<u64>; 2]) -> Peer {
        let [received, sent] = ages.map(|age| Traffic {
            packets: u64::from(age.is_some()),
            bytes: 100 * u64::from(age.is_some()),
            age: age.map(Duration::from_millis),
        });
        Peer {
            address,
            encapsulation,
            vni: None,
            received,
            sent,
        }
    }

    fn said(index: u8, tunnels: Vec<Peer>) -> Said {
        Said {
            node: named(index),
            report: Ok(TunnelReport {
                enabled: true,
                tunnels,
                ..TunnelReport::default()
            }),
        }
    }

    fn vxlan(peer: u8, received: Option<u64>, sent: Option<u64>) -> Peer {
        tunnel(address(peer), Encapsulation::Vxlan, [received, sent])
    }

    fn matrix(nodes: Vec<Said>) -> TunnelMatrix {
        Survey::new(nodes).matrix(SystemTime::UNIX_EPOCH, Limits::default())
    }

    fn verdicts(matrix: &TunnelMatrix) -> Vec<(&str, &str, Verdict)> {
        let pair = |pair: &TunnelPair| pair.verdict;
        let pairs = matrix.pairs.iter();
        pairs.map(|it| (&*it.node, &*it.peer, pair(it))).collect()
    }

    #[test]
    fn both_nodes_words_together_tell_which_direction_is_lost() {
        let matrix = matrix(vec![
            said(2, vec![vxlan(1, Some(3000), Some(1))]),
            said(1, vec![vxlan(2, Some(1), Some(1)), vxlan(9, Some(1), None)]),
            said(3, Vec::new()),
        ]);
        assert_eq!(
            verdicts(&matrix),
            [
                ("n1", "n2", Verdict::ReceivedOnly),
                ("n2", "n1", Verdict::SentOnly)
            ]
        );
        let sentences = matrix.sentences(None);
        assert_eq!(sentences.len(), 2);
        assert!(
            sentences[1].contains("n2 sends vxlan packets to n1"),
            "{sentences:?}"
        );
        assert!(sentences[1].contains("3.0 s ago"), "{sentences:?}");
        assert_eq!(matrix.sentences(Some("n1")), sentences[..1]);
        assert!(matrix.sentences(Some("n3")).is_empty());
    }

    #[test]
    fn all_addresses_of_a_node_are_the_node() {
        let other = tunnel(
            IpAddr::from([10, 1, 0, 2]),
            Encapsulation::Vxlan,
            [None, Some(5)],
        );
        let matrix = matrix(vec![
            said(1, vec![vxlan(2, Some(4), None), other]),
            said(2, vec![vxlan(1, Some(4), Some(4))]),
        ]);
        let pair = matrix.pair("n1", "n2").unwrap();
        assert_eq!((pair.verdict, pair.tunnels.len()), (Verdict::BothWays, 1));
        assert_eq!(pair.tunnels[0].sent.last_seen_ms, Some(5));
    }

    #[test]
    fn the_tunnel_that_deserves_attention_decides() {
        let gre = |peer, ages| tunnel(address(peer), Encapsulation::Gre, ages);
        let matrix = matrix(vec![
            said(1, vec![vxlan(2, Some(1), Some(1)), gre(2, [None, Some(1)])]),
            said(2, vec![vxlan(1, Some(1), Some(1)), gre(1, [None, None])]),
        ]);
        let pair = matrix.pair("n1", "n2").unwrap();
        assert_eq!(pair.verdict, Verdict::SentOnly);
        let details: Vec<_> = pair
            .tunnels
            .iter()
            .map(|it| (&*it.encap, it.verdict))
            .collect();
        assert_eq!(
            details,
            [("vxlan", Verdict::BothWays), ("gre", Verdict::SentOnly)]
        );
    }

    #[test]
    fn a_node_that_does_not_answer_has_no_view_and_its_peers_judge_alone() {
        let matrix = matrix(vec![
            said(1, vec![vxlan(2, Some(1), Some(1))]),
            Said {
                node: named(2),
                report: Err("no answer in time".to_owned()),
            },
            Said {
                node: named(3),
                report: Ok(TunnelReport::default()),
            },
        ]);
        assert_eq!(verdicts(&matrix), [("n1", "n2", Verdict::BothWays)]);
        let problems: Vec<_> = matrix
            .nodes
            .iter()
            .map(|it| it.problem.as_deref())
            .collect();
        let expected = [
            None,
            Some("no answer in time"),
            Some("it counts no tunnels"),
        ];
        assert_eq!(problems, expected);
    }

    #[test]
    fn a_node_is_last_heard_by_whoever_received_from_it_last() {
        let survey = Survey::new(vec![
            said(1, vec![vxlan(3, Some(700), Some(0))]),
            said(2, vec![vxlan(3, Some(300), None), vxlan(1, Some(1), None)]),
            said(3, vec![vxlan(1, Some(0), Some(0))]),
        ]);
        let heard = survey.last_heard("n3").unwrap();
        assert_eq!((&*heard.by, heard.ago), ("n2", Duration::from_millis(300)));
        assert_eq!(survey.last_heard("n2"), None, "nobody has received from it");
        assert_eq!(survey.last_heard("n9"), None);
    }
}
