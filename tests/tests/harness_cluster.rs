//! The harness itself: without these, every other netns test could pass or fail for no reason.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests panic like the tests themselves"
)]

use std::cell::Cell;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

use pulsepath_tests::{Cluster, Direction, LinkState, Netns, Process, Signal, eventually};

const SOON: Duration = Duration::from_secs(5);
/// Long enough for a packet between two namespaces, even on a busy machine.
const PATIENCE: Duration = Duration::from_millis(100);

/// Two sockets, in `n1` and in `n2`.
struct Pair {
    one: UdpSocket,
    two: UdpSocket,
    /// Packets sent so far.
    sent: Cell<u32>,
}

impl Pair {
    fn new(cluster: &Cluster, ipv6: bool) -> Self {
        let bind = |index| {
            let node = cluster.node(index);
            let address = if ipv6 {
                node.ipv6().into()
            } else {
                node.ipv4().into()
            };
            let socket = node
                .netns()
                .enter(|| UdpSocket::bind(SocketAddr::new(address, 7000)))
                .unwrap()
                .unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            socket
        };
        Self {
            one: bind(1),
            two: bind(2),
            sent: Cell::new(0),
        }
    }

    /// Whether a packet from n1 reaches n2.
    fn reaches_two(&self) -> bool {
        self.delivers(&self.one, &self.two)
    }

    /// Whether a packet from n2 reaches n1.
    fn reaches_one(&self) -> bool {
        self.delivers(&self.two, &self.one)
    }

    /// Whether a new packet arrives; an earlier one that was slow to come does not count.
    fn delivers(&self, from: &UdpSocket, to: &UdpSocket) -> bool {
        let number = self.sent.get() + 1;
        self.sent.set(number);
        let packet = number.to_be_bytes();
        let mut received = [0; 4];
        if from.send_to(&packet, to.local_addr().unwrap()).is_err() {
            return false;
        }
        while to.recv_from(&mut received).is_ok() {
            if received == packet {
                return true;
            }
        }
        false
    }
}

#[test]
fn two_nodes_reach_each_other_over_ipv4() {
    let cluster = Cluster::new("harness", 2).unwrap();
    let pair = Pair::new(&cluster, false);
    eventually(SOON, || pair.reaches_two() && pair.reaches_one());
}

#[test]
fn two_nodes_reach_each_other_over_ipv6() {
    let cluster = Cluster::new("harness", 2).unwrap();
    let pair = Pair::new(&cluster, true);
    eventually(SOON, || pair.reaches_two() && pair.reaches_one());
}

#[test]
fn a_cut_link_delivers_nothing_until_it_is_mended() {
    let cluster = Cluster::new("harness", 2).unwrap();
    let pair = Pair::new(&cluster, false);
    eventually(SOON, || pair.reaches_two());
    cluster.set_link(1, LinkState::Down).unwrap();
    assert!(!pair.reaches_two() && !pair.reaches_one());
    cluster.set_link(1, LinkState::Up).unwrap();
    eventually(SOON, || pair.reaches_two() && pair.reaches_one());
}

#[test]
fn one_direction_can_be_dropped_alone() {
    let cluster = Cluster::new("harness", 2).unwrap();
    let pair = Pair::new(&cluster, false);
    eventually(SOON, || pair.reaches_two() && pair.reaches_one());
    cluster.drop_packets(1, Direction::FromNode).unwrap();
    assert!(!pair.reaches_two());
    eventually(SOON, || pair.reaches_one());
    cluster.pass_packets(1).unwrap();
    cluster.drop_packets(1, Direction::ToNode).unwrap();
    eventually(SOON, || pair.reaches_two());
    assert!(!pair.reaches_one());
}

#[test]
fn a_cluster_that_is_dropped_leaves_no_namespace_and_no_pins() {
    let cluster = Cluster::new("harness", 1).unwrap();
    let paths: [PathBuf; 3] = [
        cluster.hub().path().into(),
        cluster.node(1).netns().path().into(),
        cluster.pins().into(),
    ];
    assert!(paths.iter().all(|path| path.exists()));
    drop(cluster);
    assert!(!paths.iter().any(|path| path.exists()));
}

#[test]
fn a_process_runs_inside_the_namespace_under_its_own_process_id() {
    let netns = Netns::new("harness").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut command = netns.command("sleep");
    command.arg("60");
    let process = Process::spawn("sleep", &command, &dir.path().join("log")).unwrap();
    let proc = PathBuf::from("/proc").join(process.id().to_string());
    eventually(SOON, || {
        std::fs::read_to_string(proc.join("comm")).unwrap() == "sleep\n"
    });
    let inside = netns
        .enter(|| std::fs::read_link("/proc/thread-self/ns/net"))
        .unwrap()
        .unwrap();
    assert_eq!(std::fs::read_link(proc.join("ns/net")).unwrap(), inside);
}

#[test]
fn a_dropped_process_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new("sleep");
    command.arg("60");
    let process = Process::spawn("sleep", &command, &dir.path().join("log")).unwrap();
    let proc = PathBuf::from("/proc").join(process.id().to_string());
    assert!(proc.exists());
    drop(process);
    assert!(!proc.exists());
}

#[test]
fn what_a_process_writes_and_how_it_ends_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "echo out; echo err >&2; exec sleep 60"]);
    let mut process = Process::spawn("sh", &command, &dir.path().join("log")).unwrap();
    eventually(SOON, || process.log() == "out\nerr\n");
    assert!(process.exited().is_none());
    process.signal(Signal::SIGTERM).unwrap();
    let status = process.wait(SOON).unwrap();
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(15)
    );
}
