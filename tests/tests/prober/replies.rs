//! Replies that are forged, replayed, duplicated or from elsewhere are counted, and do no harm.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use probe_ebpf::wire::probe::PROBE_LEN;
use pulsepath_tests::Cluster;

use crate::false_node::FalseNode;
use crate::probing::Probing;

const MANY: u64 = 20;

/// Probes a node that answers with what `answers` makes of its honest replies, until `condition`
/// holds.
fn probe(
    purpose: &str,
    mut answers: impl FnMut([u8; PROBE_LEN]) -> Vec<Vec<u8>> + Send + 'static,
    condition: impl Fn(&Probing) -> bool,
) -> Probing {
    let cluster = Cluster::new(purpose, 1).unwrap();
    let node = cluster.node(1);
    let keys = cluster.keys().node_keys("n1");
    let address = IpAddr::from(node.ipv4());
    let key = keys.current().sip();
    let _node = FalseNode::start(node.netns(), address, key, move |reply, _| answers(reply));
    let mut probing = Probing::new(cluster.hub());
    probing.insert(1, keys, &[address]);
    probing.until(condition);
    probing
}

#[test]
fn duplicates_are_counted_once_each() {
    let thrice = |reply: [u8; PROBE_LEN]| vec![reply.to_vec(); 3];
    let probing = probe("p-dup", thrice, |probing| probing.stats().answered >= MANY);
    let stats = probing.stats();
    assert_eq!(stats.answered, probing.replies(1) as u64);
    // The last reply's may be still to come.
    assert!(
        stats.duplicate + stats.late >= 2 * (stats.answered - 1),
        "{stats:?}"
    );
}

#[test]
fn forged_replies_neither_count_nor_use_the_probe_up() {
    let mut bit = 0;
    let forge_first = move |reply: [u8; PROBE_LEN]| {
        let mut forged = reply.to_vec();
        bit = (bit + 7) % (PROBE_LEN * 8);
        forged[bit / 8] ^= 1 << (bit % 8);
        vec![forged, reply.to_vec()]
    };
    let probing = probe("p-forge", forge_first, |probing| {
        probing.stats().answered >= MANY
    });
    let stats = probing.stats();
    assert!(stats.forged + stats.foreign >= stats.answered, "{stats:?}");
    assert_eq!(stats.duplicate, 0);
}

#[test]
fn only_forged_replies_are_no_reply() {
    let forge = |mut reply: [u8; PROBE_LEN]| {
        reply[PROBE_LEN - 1] ^= 1;
        vec![reply.to_vec()]
    };
    let probing = probe("p-forged", forge, |probing| {
        probing.stats().forged >= MANY && probing.stats().lost > 0
    });
    assert_eq!((probing.stats().answered, probing.replies(1)), (0, 0));
}

#[test]
fn replayed_replies_are_not_taken_for_new_ones() {
    let (accepted, honest) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let (stop_honest, count_honest) = (Arc::clone(&accepted), Arc::clone(&honest));
    let mut last = None;
    // Honest until a reply has been accepted; from then on the last one again and again.
    let replay = move |reply: [u8; PROBE_LEN]| {
        if last.is_none() || !stop_honest.load(Ordering::Relaxed) {
            count_honest.fetch_add(1, Ordering::Relaxed);
            last = Some(reply);
        }
        last.iter().map(|reply| reply.to_vec()).collect()
    };
    let probing = probe("p-replay", replay, |probing| {
        let stats = probing.stats();
        accepted.store(stats.answered > 0, Ordering::Relaxed);
        stats.answered > 0 && stats.duplicate > 0 && stats.late > 0
    });
    let stats = probing.stats();
    assert!(
        probing.replies(1) <= honest.load(Ordering::Relaxed),
        "{stats:?}"
    );
}

#[test]
fn a_nodes_replies_recorded_before_the_prober_started_are_replays() {
    let cluster = Cluster::new("p-recorded", 1).unwrap();
    let node = cluster.node(1);
    let keys = cluster.keys().node_keys("n1");
    let address = IpAddr::from(node.ipv4());
    let (recorder, recorded) = std::sync::mpsc::channel();
    {
        let record = move |reply: [u8; PROBE_LEN], _| {
            recorder.send(reply).unwrap();
            vec![reply.to_vec()]
        };
        let _node = FalseNode::start(node.netns(), address, keys.current().sip(), record);
        let mut earlier = Probing::new(cluster.hub());
        earlier.insert(1, keys.clone(), &[address]);
        earlier.until(|probing| probing.replies(1) > 0);
    }
    let old = recorded.recv().unwrap().to_vec();
    let replay = move |_, _| vec![old.clone()];
    let _node = FalseNode::start(node.netns(), address, keys.current().sip(), replay);
    let mut probing = Probing::new(cluster.hub());
    // The same seed, so the same sequence numbers: only the time of sending differs.
    probing.insert(1, keys, &[address]);
    probing.until(|probing| probing.stats().replayed > 0);
    assert_eq!(probing.replies(1), 0);
}

#[test]
fn replies_from_strangers_and_other_ports_are_counted_and_ignored() {
    let cluster = Cluster::new("p-stranger", 2).unwrap();
    let keys = cluster.keys().node_keys("n1");
    let address = IpAddr::from(cluster.node(1).ipv4());
    let bind = |index, port| {
        let node = cluster.node(index);
        let bind = || UdpSocket::bind((node.ipv4(), port));
        node.netns().enter(bind).unwrap().unwrap()
    };
    let wrong = [bind(1, 863), bind(2, 862)];
    let divert = move |reply: [u8; PROBE_LEN], to: SocketAddr| {
        for socket in &wrong {
            socket.send_to(&reply, to).unwrap();
        }
        Vec::new()
    };
    let node = cluster.node(1).netns();
    let _node = FalseNode::start(node, address, keys.current().sip(), divert);
    let mut probing = Probing::new(cluster.hub());
    probing.insert(1, keys, &[address]);
    probing.until(|probing| probing.stats().unexpected_source >= MANY);
    assert_eq!((probing.stats().answered, probing.replies(1)), (0, 0));
}
