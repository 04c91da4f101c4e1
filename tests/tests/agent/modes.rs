//! Attach modes.

use std::net::IpAddr;

use aya::programs::{SchedClassifier, TcAttachType};
use pulsepath_tests::{Cluster, Node};

use crate::bpf::{bpftool, pins};
use crate::probe::Prober;
use crate::subject::{
    attachment, inspect, metrics, mode, one_node, prober, start, start_in_vain, wait_for_answer,
};

/// Asserts that both addresses answer, to the hub and to the node itself.
fn assert_answers_everywhere(cluster: &Cluster, node: &Node) {
    let addresses: [IpAddr; 2] = [node.ipv4().into(), node.ipv6().into()];
    for address in addresses {
        wait_for_answer(&mut Prober::new(cluster.hub(), node, address));
        wait_for_answer(&mut Prober::new(node.netns(), node, address));
    }
}

fn forced(mode: &str) -> String {
    format!("reflector.attach = '{mode}'")
}

#[test]
fn auto_takes_generic_on_veth_and_tcx_on_lo_and_says_why() {
    let cluster = one_node("auto");
    let node = cluster.node(1);
    let _agent = start(node, "");
    assert_answers_everywhere(&cluster, node);
    let report = inspect(node);
    let eth0 = attachment(&report, "eth0").unwrap();
    assert_eq!(
        (&eth0["mode"], &eth0["reason"]),
        (&"generic".into(), &"auto: virtual interface (veth)".into())
    );
    assert_eq!(attachment(&report, "lo").unwrap()["mode"], "tcx");
    let metrics = metrics(node);
    let series = "pulsepath_agent_attach_info{interface=\"eth0\",mode=\"generic\",\
                  reason=\"auto: virtual interface (veth)\"} 1";
    assert!(metrics.contains(series), "{metrics}");
}

#[test]
fn generic_and_tcx_answer_when_they_are_forced() {
    for mode_name in ["generic", "tcx"] {
        let cluster = one_node(mode_name);
        let node = cluster.node(1);
        let _agent = start(node, &forced(mode_name));
        assert_answers_everywhere(&cluster, node);
        for interface in ["eth0", "lo"] {
            assert_eq!(
                mode(node, interface).as_deref(),
                Some(mode_name),
                "{interface}"
            );
        }
    }
}

#[test]
fn native_answers_when_it_is_forced_and_lo_takes_generic() {
    let cluster = one_node("native");
    let node = cluster.node(1);
    let _agent = start(node, &forced("native"));
    // Native XDP_TX over veth arrives only where the other end runs a native program, too. Ours
    // passes whatever is not for it.
    let program = pins(node).join("reflect_xdp");
    bpftool(
        cluster.hub(),
        &format!("net attach xdpdrv pinned {} dev n1", program.display()),
    );
    assert_answers_everywhere(&cluster, node);
    assert_eq!(mode(node, "eth0").as_deref(), Some("native"));
    assert_eq!(mode(node, "lo").as_deref(), Some("generic"));
}

#[test]
fn a_mode_can_be_changed_by_a_restart_without_losing_a_probe() {
    let cluster = one_node("change");
    let node = cluster.node(1);
    let mut agent = start(node, &forced("generic"));
    let stream = prober(&cluster).stream();
    for next in ["tcx", "generic"] {
        agent.terminate().unwrap();
        agent = start(node, &forced(next));
        assert_eq!(mode(node, "eth0").as_deref(), Some(next));
    }
    stream.assert_nothing_lost(100);
}

/// A cluster in which another program holds XDP on n1's `eth0`: that of n2's agent.
fn with_xdp_taken(purpose: &str) -> Cluster {
    let cluster = Cluster::new(&format!("agent-{purpose}"), 2).unwrap();
    start(cluster.node(2), "").terminate().unwrap();
    let program = pins(cluster.node(2)).join("reflect_xdp");
    let attach = format!(
        "net attach xdpgeneric pinned {} dev eth0",
        program.display()
    );
    bpftool(cluster.node(1).netns(), &attach);
    cluster
}

#[test]
fn auto_takes_tcx_where_xdp_is_taken() {
    let cluster = with_xdp_taken("busy");
    let node = cluster.node(1);
    let _agent = start(node, "");
    assert_eq!(mode(node, "eth0").as_deref(), Some("tcx"));
    let metrics = metrics(node);
    assert!(
        metrics.contains(
            "mode=\"tcx\",reason=\"auto: generic XDP failed (XDP on eth0 is taken by program"
        ),
        "{metrics}"
    );
}

#[test]
fn a_forced_mode_that_is_taken_is_an_error_that_names_the_holder() {
    let cluster = with_xdp_taken("taken");
    let node = cluster.node(1);
    let said = start_in_vain(node, &node.agent_config(&forced("generic")));
    assert!(said.contains("XDP on eth0 is taken by program"), "{said}");
    assert!(said.contains("(`reflect_xdp`)"), "{said}");
    assert!(said.contains("reflector.attach"), "{said}");
}

#[test]
fn a_forced_mode_that_fails_leaves_the_earlier_one_answering() {
    let cluster = one_node("keeps");
    let node = cluster.node(1);
    // A bridge has no native XDP.
    node.netns().ip_batch(
        "link set eth0 down\nlink add br1 type bridge\nlink set eth0 master br1\n\
         address flush dev eth0\naddress add 10.77.0.1/24 dev br1\nlink set eth0 up\nlink set br1 up\n",
    ).unwrap();
    let bridge = |settings: &str| {
        node.agent_config(settings)
            .replace("interface = \"eth0\"", "interface = \"br1\"")
    };
    let mut agent = node.spawn_agent(&bridge("")).unwrap();
    wait_for_answer(&mut prober(&cluster));
    agent.terminate().unwrap();
    let said = start_in_vain(node, &bridge(&forced("native")));
    assert!(said.contains("br1 refuses native XDP"), "{said}");
    assert!(prober(&cluster).ask().is_some());
    assert_eq!(mode(node, "br1").as_deref(), Some("generic"));
}

#[test]
fn the_tcx_reflector_comes_before_programs_that_were_there() {
    let cluster = Cluster::new("agent-order", 2).unwrap();
    let node = cluster.node(1);
    start(cluster.node(2), "").terminate().unwrap();
    let foreign = pins(cluster.node(2)).join("reflect_tcx");
    let attach = || {
        let mut program = SchedClassifier::from_pin(foreign).unwrap();
        program.attach("eth0", TcAttachType::Ingress).unwrap();
        program
    };
    let foreign = node.netns().enter(attach).unwrap();

    let _agent = start(node, &forced("tcx"));
    let query = || {
        SchedClassifier::query_tcx("eth0", TcAttachType::Ingress)
            .unwrap()
            .1
    };
    let order: Vec<_> = node
        .netns()
        .enter(query)
        .unwrap()
        .iter()
        .map(|it| it.id())
        .collect();
    let links = probe_user::kernel::scan_links(&pins(node)).unwrap();
    let ours = links
        .iter()
        .find(|link| link.path.ends_with("link_2_tcx"))
        .unwrap();
    assert_eq!(order, [ours.program_id, foreign.info().unwrap().id()]);
}
