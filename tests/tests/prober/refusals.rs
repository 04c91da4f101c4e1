//! What this host refuses to send is not the node's silence; what the network refuses is.

use std::net::IpAddr;
use std::time::Duration;

use pulsepath_tests::{Cluster, Netns, Process, run};

use crate::probing::{PERIOD, Probing};
use crate::scene::start_agent;

const ROUNDS: u64 = 30;
/// The filter program "return TC_ACT_SHOT".
const DROP: &str = "1,6 0 0 2,";

/// Two nodes, the second with an agent, and a prober on the first.
struct Refused {
    probing: Probing,
    _agent: Process,
    cluster: Cluster,
}

impl Refused {
    fn new(purpose: &str) -> Self {
        let cluster = Cluster::new(purpose, 3).unwrap();
        let agent = start_agent(&cluster, 2, "");
        let mut probing = Probing::new(cluster.node(1).netns());
        let node = cluster.node(2);
        let keys = cluster.keys().node_keys("n2");
        probing.insert(2, keys, &[node.ipv4().into(), node.ipv6().into()]);
        probing.until(|probing| probing.replies(2) >= 4);
        Self {
            probing,
            _agent: agent,
            cluster,
        }
    }

    fn host(&self) -> &Netns {
        self.cluster.node(1).netns()
    }

    /// Probes while something is in force, and returns how many were sent, refused and lost, and
    /// how much time was excused, other than for rounds that came too late.
    fn rounds(&mut self) -> (u64, u64, u64, Duration) {
        let before = self.probing.stats();
        self.probing.rounds(ROUNDS);
        let after = self.probing.stats();
        let skipped = after.skipped_rounds - before.skipped_rounds;
        (
            after.sent - before.sent,
            after.refused - before.refused,
            after.lost - before.lost,
            after.excused - before.excused - PERIOD * skipped as u32,
        )
    }
}

#[test]
fn probes_that_the_hosts_own_queue_drops_are_excused_and_not_lost() {
    let mut refused = Refused::new("p-enobufs");
    let tc = |arguments: &[&str]| run(refused.host().command("tc").args(arguments)).unwrap();
    tc(&["qdisc", "add", "dev", "eth0", "clsact"]);
    let filter = [
        "filter",
        "add",
        "dev",
        "eth0",
        "egress",
        "bpf",
        "direct-action",
        "bytecode",
        DROP,
    ];
    tc(&filter);
    let (sent, refusals, lost, excused) = refused.rounds();
    assert!(sent - refusals <= 2, "{sent} sent, {refusals} refused");
    assert!(lost <= 2, "{lost} lost");
    assert!(
        excused >= PERIOD * (ROUNDS as u32 - 2),
        "{excused:?} excused"
    );

    run(refused
        .host()
        .command("tc")
        .args(["qdisc", "del", "dev", "eth0", "clsact"]))
    .unwrap();
    let replies = refused.probing.replies(2);
    refused
        .probing
        .until(|probing| probing.replies(2) >= replies + 4);
}

#[test]
fn probes_that_a_local_rule_prohibits_are_excused() {
    let mut refused = Refused::new("p-eacces");
    let node = refused.cluster.node(2);
    refused
        .host()
        .ip(&format!("route add prohibit {}/32", node.ipv4()))
        .unwrap();
    refused
        .host()
        .ip(&format!("-6 route add prohibit {}/128", node.ipv6()))
        .unwrap();
    let (sent, refusals, _, excused) = refused.rounds();
    assert!(sent - refusals <= 2, "{sent} sent, {refusals} refused");
    assert!(
        excused >= PERIOD * (ROUNDS as u32 - 2),
        "{excused:?} excused"
    );
}

#[test]
fn a_round_of_which_one_address_is_prohibited_is_not_excused() {
    let mut refused = Refused::new("p-half");
    let node = refused.cluster.node(2);
    refused
        .host()
        .ip(&format!("route add prohibit {}/32", node.ipv4()))
        .unwrap();
    let (sent, refusals, _, excused) = refused.rounds();
    assert!(
        refusals.abs_diff(sent / 2) <= 2,
        "{sent} sent, {refusals} refused"
    );
    assert!(excused <= PERIOD * 2, "{excused:?} excused");
}

#[test]
fn probes_without_a_route_are_the_nodes_silence() {
    let mut refused = Refused::new("p-unreachable");
    let node = refused.cluster.node(2);
    refused
        .host()
        .ip(&format!("route add unreachable {}/32", node.ipv4()))
        .unwrap();
    refused
        .host()
        .ip(&format!("-6 route add unreachable {}/128", node.ipv6()))
        .unwrap();
    let (_, refusals, lost, excused) = refused.rounds();
    assert_eq!(refusals, 0);
    assert!(lost > 0, "those whose window has closed");
    assert!(excused <= PERIOD * 2, "{excused:?} excused");
}

#[test]
fn one_refused_destination_does_not_keep_the_others_from_being_probed() {
    let mut refused = Refused::new("p-among");
    let third: IpAddr = refused.cluster.node(3).ipv4().into();
    let _agent = start_agent(&refused.cluster, 3, "");
    let keys = |name: &str| refused.cluster.keys().node_keys(name);
    // In one batch: what cannot be sent, what can, and what has no route.
    let unsendable: IpAddr = "10.77.0.100".parse().unwrap();
    refused
        .host()
        .ip(&format!("route add prohibit {unsendable}/32"))
        .unwrap();
    let unreachable: IpAddr = "10.77.0.101".parse().unwrap();
    refused
        .host()
        .ip(&format!("route add unreachable {unreachable}/32"))
        .unwrap();
    let mut probing = Probing::new(refused.host());
    probing.insert(3, keys("n3"), &[unsendable, third, unreachable]);
    probing.rounds(ROUNDS);
    let stats = probing.stats();
    assert!(probing.replies(3) as u64 >= ROUNDS - 2, "{stats:?}");
    assert!(stats.refused >= ROUNDS - 1, "{stats:?}");
    refused.probing.rounds(2);
}

#[test]
fn answers_that_a_node_is_dead_do_not_disturb_the_probing_of_others() {
    let mut refused = Refused::new("p-icmp");
    // Nobody listens there, so each probe is answered with "port unreachable".
    let third = refused.cluster.node(3);
    let keys = refused.cluster.keys().node_keys("n3");
    refused
        .probing
        .insert(3, keys, &[third.ipv4().into(), third.ipv6().into()]);
    let before = refused.probing.stats();
    refused.probing.rounds(4 * ROUNDS);
    let after = refused.probing.stats();
    assert_eq!(after.refused, before.refused);
    let replies = refused.probing.replies(2) as u64;
    // Of the present node, two probes a round.
    assert!(
        replies >= 2 * (2 * ROUNDS - 2),
        "{replies} replies: {after:?}"
    );
    assert_eq!(refused.probing.replies(3), 0);
}

/// The first batch of a round is all dead addresses, so that what it leaves behind is an error for
/// the first probe of the second.
#[test]
fn a_probe_is_sent_although_an_earlier_one_was_answered_with_an_error() {
    let mut refused = Refused::new("p-pending");
    let dead = refused.cluster.node(3).netns();
    let unlimited = || {
        std::fs::write("/proc/sys/net/ipv4/icmp_ratelimit", "0").unwrap();
        std::fs::write("/proc/sys/net/ipv4/icmp_msgs_per_sec", "1000000").unwrap();
        std::fs::write("/proc/sys/net/ipv4/icmp_msgs_burst", "100000").unwrap();
    };
    dead.enter(unlimited).unwrap();
    let mut addresses = Vec::new();
    for last in 101..=132 {
        dead.ip(&format!("address add 10.77.0.{last}/24 dev eth0"))
            .unwrap();
        addresses.push(IpAddr::from([10, 77, 0, last]));
    }
    addresses.push(refused.cluster.node(2).ipv4().into());
    let keys = refused.cluster.keys().node_keys("n2");
    refused.probing = Probing::new(refused.host());
    refused.probing.insert(2, keys, &addresses);
    refused.probing.rounds(ROUNDS);
    let stats = refused.probing.stats();
    assert!(refused.probing.replies(2) as u64 >= ROUNDS - 2, "{stats:?}");
    assert_eq!(stats.refused, 0);
}
