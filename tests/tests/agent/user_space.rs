//! The reflector in user space, where the kernel is ruled out.

use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use probe_ebpf::wire::ntp::{NtpTime, UNKNOWN_ERROR};
use probe_ebpf::wire::probe::AGENT_UP;
use probe_ebpf::wire::stamp::StampBase;
use pulsepath_tests::{Cluster, Node, Process, bin_dir, eventually};

use crate::probe::Prober;
use crate::subject::{SOON, metrics, one_node, wait_until_ready};

/// Starts an agent as root that may bind low ports and nothing else.
fn start_without_permission(node: &Node, settings: &str) -> Process {
    let file = node.config_file("restricted");
    std::fs::write(&file, node.agent_config(settings)).unwrap();
    let mut command = node.netns().command("setpriv");
    command
        .args([
            "--bounding-set=-all,+net_bind_service,+dac_override",
            "--inh-caps=-all",
        ])
        .arg(bin_dir().unwrap().join("pulsepath-agent"))
        .args(["run", "--config"])
        .arg(&file);
    Process::spawn("restricted", &command, &file.with_extension("log")).unwrap()
}

#[test]
fn without_permission_for_bpf_this_process_answers_and_says_so_loudly() {
    let cluster = one_node("restricted");
    let node = cluster.node(1);
    let mut agent = start_without_permission(node, "");
    wait_until_ready(node);
    let addresses: [IpAddr; 2] = [node.ipv4().into(), node.ipv6().into()];
    for address in addresses {
        for from in [cluster.hub(), node.netns()] {
            let mut prober = Prober::new(from, node, address);
            let up =
                |prober: &mut Prober| prober.ask().filter(|it| it.answer.flags & AGENT_UP != 0);
            let reply = eventually(SOON, || up(&mut prober));
            assert_eq!(reply.answer.ttl, 64);
        }
    }
    assert!(
        agent.log().contains("NO KERNEL PROGRAM CAN BE ATTACHED"),
        "{}",
        agent.log()
    );
    let shown = metrics(node);
    assert!(
        shown.contains("pulsepath_reflector_kind{kind=\"user_space\",reason=\"no permission"),
        "{shown}"
    );
    assert!(
        shown.contains("pulsepath_reflector_packets_total{outcome=\"answered\"} "),
        "{shown}"
    );

    agent.kill().unwrap();
    assert!(
        Prober::new(cluster.hub(), node, node.ipv4())
            .ask()
            .is_none(),
        "no agent, no answer"
    );
}

#[test]
fn a_forced_mode_never_falls_back() {
    let cluster = one_node("forced");
    let node = cluster.node(1);
    let mut agent = start_without_permission(node, "reflector.attach = 'generic'");
    assert!(!agent.wait(SOON).unwrap().success());
    assert!(agent.log().contains("no permission"), "{}", agent.log());
    assert!(agent.log().contains("CAP_BPF"), "{}", agent.log());
}

fn ask_stamp(cluster: &Cluster) -> Option<StampBase> {
    let socket = cluster
        .hub()
        .enter(|| UdpSocket::bind("0.0.0.0:0"))
        .unwrap()
        .unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    socket.connect((cluster.node(1).ipv4(), 862)).unwrap();
    let request = StampBase::request(7, NtpTime::default(), UNKNOWN_ERROR, 0);
    socket.send(&request.to_bytes(0)).ok()?;
    let mut buffer = [0; 64];
    let length = socket.recv(&mut buffer).ok()?;
    StampBase::from_bytes(&buffer[..length]).map(|(base, _)| base)
}

#[test]
fn plain_stamp_is_answered_to_configured_sources_only() {
    for (source, answered) in [("10.77.0.0/24", true), ("10.78.0.0/24", false)] {
        let cluster = one_node("stamp");
        let node = cluster.node(1);
        let settings = format!("stamp = {{ enabled = true, sources = ['{source}'] }}");
        let _agent = start_without_permission(node, &settings);
        wait_until_ready(node);
        let reply = ask_stamp(&cluster);
        assert_eq!(
            reply.map(|base| base.sender_sequence()),
            answered.then_some(7),
            "{source}"
        );
    }
}

/// An S-BFD packet (RFC 7880) of an initiator: state Up, Demand, no authentication.
fn ask_sbfd(cluster: &Cluster, discriminator: u32) -> Option<[u8; 24]> {
    let socket = cluster
        .hub()
        .enter(|| UdpSocket::bind("0.0.0.0:0"))
        .unwrap()
        .unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    socket.connect((cluster.node(1).ipv4(), 7784)).unwrap();
    let mut request = [
        0x20, 0xc2, 3, 24, 0, 0, 0, 9, 0, 0, 0, 0, 0, 1, 0x86, 0xa0, 0, 1, 0x86, 0xa0, 0, 0, 0, 0,
    ];
    request[8..12].copy_from_slice(&discriminator.to_be_bytes());
    socket.send(&request).ok()?;
    let mut reply = [0; 24];
    (socket.recv(&mut reply).ok()? == 24).then_some(reply)
}

#[test]
fn sbfd_is_answered_up_under_the_nodes_discriminator_only() {
    let cluster = one_node("sbfd");
    let node = cluster.node(1);
    let sources = "sources = ['10.77.0.0/24']";
    let settings = format!("sbfd = {{ enabled = true, discriminator = 77, {sources} }}");
    let _agent = start_without_permission(node, &settings);
    wait_until_ready(node);
    let up = 0xc0;
    let reply = eventually(SOON, || {
        ask_sbfd(&cluster, 77).filter(|reply| reply[1] & 0xc0 == up)
    });
    assert_eq!(
        (&reply[4..8], &reply[8..12]),
        (&77_u32.to_be_bytes()[..], &9_u32.to_be_bytes()[..])
    );
    assert_eq!(ask_sbfd(&cluster, 78), None);
}
