//! Programs by other people talk to the reflector, or read its bytes.

#![expect(clippy::unwrap_used, reason = "a test panics to fail")]

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use probe_ebpf::testing::{probe_frame, request, test_node};
use pulsepath_tests::kernel::{Program, Reflector};
use pulsepath_tests::{Cluster, Process, eventually, run};
use serde_json::Value;

const SOON: Duration = Duration::from_secs(10);
const STAMP_SUITE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../target/tools/bin/stamp-suite"
);
/// Debian's own, which has Debian's scapy; there may be others.
const PYTHON: &str = "/usr/bin/python3";

/// Two nodes; an agent with these settings on the first.
fn answering(purpose: &str, settings: &str) -> (Cluster, Process) {
    let cluster = Cluster::new(purpose, 2).unwrap();
    let node = cluster.node(1);
    let agent = node.spawn_agent(&node.agent_config(settings)).unwrap();
    eventually(SOON, || {
        node.agent_http("/ready")
            .is_ok_and(|response| response.status == 200)
    });
    (cluster, agent)
}

/// What stamp-suite on the second node reports of ten packets to `to`.
fn stamp_suite(cluster: &Cluster, to: IpAddr) -> Value {
    let from = if to.is_ipv4() { "0.0.0.0" } else { "::" };
    let report = run(cluster
        .node(2)
        .netns()
        .command(STAMP_SUITE)
        .args(["--remote-addr", &to.to_string(), "--local-addr", from])
        .args(["--count", "10", "--send-delay", "20ms", "--timeout", "1"])
        .args(["--ssid", "4711", "--output-format", "json"]))
    .unwrap();
    serde_json::from_str(report.lines().last().unwrap()).unwrap()
}

#[test]
fn stamp_suite_is_answered_where_plain_stamp_is_on() {
    let settings = "stamp.enabled = true\nstamp.sources = [\"10.77.0.0/24\", \"fd77::/64\"]";
    let (cluster, _agent) = answering("stamp-on", settings);
    for address in [cluster.node(1).ipv4().into(), cluster.node(1).ipv6().into()] {
        let report = stamp_suite(&cluster, address);
        assert_eq!(report["packets_sent"], 10, "{report:#}");
        assert_eq!(report["packets_received"], 10, "{report:#}");
    }
}

#[test]
fn stamp_suite_is_not_answered_where_plain_stamp_is_off() {
    let (cluster, _agent) = answering("stamp-off", "");
    let report = stamp_suite(&cluster, cluster.node(1).ipv4().into());
    assert_eq!(report["packets_sent"], 10, "{report:#}");
    assert_eq!(report["packets_received"], 0, "{report:#}");
}

/// Sends one S-BFD packet as an initiator, and prints the reply's state, diagnostic,
/// discriminators, flags and TTL. The packets are scapy's, the socket is the system's, which also
/// checks the checksum.
const SBFD_INITIATOR: &str = r#"
import socket, sys
from scapy.contrib.bfd import BFD
to = sys.argv[1]
if ":" in to:
    family, level, option = socket.AF_INET6, socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT
else:
    family, level, option = socket.AF_INET, socket.IPPROTO_IP, 12  # IP_RECVTTL
initiator = socket.socket(family, socket.SOCK_DGRAM)
initiator.setsockopt(level, option, 1)
initiator.settimeout(5)
request = BFD(sta=3, flags="D", my_discriminator=9, your_discriminator=77,
              min_tx_interval=50000, min_rx_interval=0, echo_rx_interval=0)
initiator.sendto(bytes(request), (to, 7784))
data, ancillary, _, _ = initiator.recvmsg(100, 100)
reply, hops = BFD(data), int.from_bytes(ancillary[0][2], sys.byteorder)
print(reply.sta, reply.diag, reply.my_discriminator, reply.your_discriminator,
      int(reply.flags), hops)
"#;

#[test]
fn scapys_sbfd_gets_up_and_admin_down_once_the_agent_is_killed() {
    let settings =
        "sbfd.enabled = true\nsbfd.discriminator = 77\nsbfd.sources = [\"::/0\", \"0.0.0.0/0\"]";
    let (cluster, mut agent) = answering("sbfd", settings);
    let ask = |to: IpAddr| {
        let mut scapy = cluster.node(2).netns().command(PYTHON);
        run(scapy.args(["-c", SBFD_INITIATOR, &to.to_string()]))
            .unwrap()
            .trim()
            .to_owned()
    };
    let addresses = [cluster.node(1).ipv4().into(), cluster.node(1).ipv6().into()];
    for address in addresses {
        assert_eq!(ask(address), "3 0 77 9 0 255", "Up from {address}");
    }
    agent.kill().unwrap();
    for address in addresses {
        eventually(SOON, || ask(address) == "0 7 77 9 0 255");
    }
}

/// A capture file of whole Ethernet frames.
fn write_pcap(file: &Path, frames: &[Vec<u8>]) {
    const MAGIC: u32 = 0xa1b2_c3d4;
    const ETHERNET: u32 = 1;
    let mut bytes = Vec::new();
    for field in [MAGIC, 0x0004_0002, 0, 0, u32::from(u16::MAX), ETHERNET] {
        bytes.extend(field.to_ne_bytes());
    }
    for frame in frames {
        let length = frame.len() as u32;
        for field in [0, 0, length, length] {
            bytes.extend(field.to_ne_bytes());
        }
        bytes.extend(frame);
    }
    fs::write(file, bytes).unwrap();
}

#[test]
fn tshark_reads_the_fields_of_request_and_reply() {
    let mut node = test_node();
    let mut reflector = Reflector::load("tshark").unwrap();
    reflector.configure(&mut node).unwrap();
    let sent = probe_frame().build();
    let (_, answered) = reflector.run(Program::Xdp, &sent).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("probe.pcap");
    write_pcap(&file, &[sent, answered.clone()]);

    let fields = [
        "seq_number",
        "timestamp",
        "receive_timestamp",
        "sender_seq_number",
        "sender_timestamp",
        "sender_ttl",
    ];
    let mut tshark = Command::new("tshark");
    tshark
        .env("TZ", "UTC")
        .arg("-r")
        .arg(&file)
        .args(["-d", "udp.port==862,twamp.test"]);
    tshark.args([
        "-o",
        "udp.check_checksum:TRUE",
        "-T",
        "fields",
        "-e",
        "udp.checksum.status",
    ]);
    for field in fields {
        tshark.args(["-e", &format!("twamp.test.{field}")]);
    }
    let output = run(&mut tshark).unwrap();
    let rows: Vec<Vec<&str>> = output
        .lines()
        .map(|line| line.split('\t').collect())
        .collect();
    // The wall clock that the kernel put in: its boot clock, and the node's offset.
    let boot = u64::from_be_bytes(answered[42 + 80..42 + 88].try_into().unwrap());
    let wall = as_tshark_prints(boot + node.beat.wall_offset_ns);
    let asked = as_tshark_prints(1_790_000_005_000_000_000);
    let (sequence, ttl) = (
        request().sequence.to_string(),
        probe_frame().ttl.to_string(),
    );
    assert_eq!(rows[0][..3], ["1", &sequence, &asked], "{output}");
    assert_eq!(rows[1][..2], ["1", &sequence], "{output}");
    assert_eq!(close(rows[1][2]), close(&wall), "{output}");
    assert_eq!(close(rows[1][3]), close(&wall), "{output}");
    assert_eq!(rows[1][4..], [&sequence, &asked, &ttl], "{output}");
}

fn as_tshark_prints(unix_nanos: u64) -> String {
    let seconds = format!("@{}", unix_nanos / 1_000_000_000);
    let date =
        run(Command::new("date").args(["-u", "-d", &seconds, "+%b %e, %Y %H:%M:%S"])).unwrap();
    format!("{}.{:09} UTC", date.trim_end(), unix_nanos % 1_000_000_000)
}

/// Without the last digits of a nanosecond, where NTP's fractions are rounded.
fn close(time: &str) -> &str {
    &time[..time.len() - " UTC".len() - 2]
}
