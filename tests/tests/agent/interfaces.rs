//! The management interface while the agent runs.

use std::net::Ipv4Addr;
use std::time::Duration;

use pulsepath_tests::{Cluster, Node, eventually};

use crate::probe::Prober;
use crate::subject::{
    SOON, inspect, metrics, mode, one_node, prober, reason_not_ready, start, wait_for_answer,
    wait_until_ready,
};

/// How long the agent may take to follow a change.
const FOLLOWED: Duration = Duration::from_secs(1);

fn delete(cluster: &Cluster) {
    cluster.node(1).netns().ip("link delete eth0").unwrap();
}

fn says_missing(node: &Node) -> bool {
    reason_not_ready(node).is_some_and(|reason| reason.contains("interface eth0 is missing"))
}

fn make_again(cluster: &Cluster) {
    let node = cluster.node(1);
    let hub = format!(
        "link add n1 type veth peer name eth0 netns {}\nlink set n1 master br0 up\n",
        node.netns().name()
    );
    cluster.hub().ip_batch(&hub).unwrap();
    let addresses = format!(
        "address add {}/24 dev eth0\nlink set eth0 up\n",
        node.ipv4()
    );
    node.netns().ip_batch(&addresses).unwrap();
}

#[test]
fn an_interface_that_is_made_again_answers_again() {
    let cluster = one_node("again");
    let node = cluster.node(1);
    let _agent = start(node, "");
    let incarnation = wait_for_answer(&mut prober(&cluster)).answer.incarnation;
    delete(&cluster);
    eventually(FOLLOWED, || says_missing(node));
    make_again(&cluster);
    let reply = wait_for_answer(&mut prober(&cluster));
    assert_eq!(reply.answer.incarnation, incarnation);
    wait_until_ready(node);
    // The old interface's link is gone.
    assert_eq!(inspect(node)["attachments"].as_array().unwrap().len(), 2);
    assert!(metrics(node).contains("pulsepath_agent_attach_changes_total 3"));
}

#[test]
fn an_agent_waits_for_an_interface_that_is_missing_at_start() {
    let cluster = one_node("waits");
    let node = cluster.node(1);
    delete(&cluster);
    let _agent = node.spawn_agent(&node.agent_config("")).unwrap();
    eventually(SOON, || says_missing(node));
    assert_eq!(
        inspect(node)["agent"]["state"],
        "absent",
        "no beat before all is in place"
    );
    make_again(&cluster);
    wait_for_answer(&mut prober(&cluster));
    wait_until_ready(node);
}

#[test]
fn a_renamed_interface_stays_the_management_interface() {
    let cluster = one_node("rename");
    let node = cluster.node(1);
    let agent = start(node, "");
    let stream = prober(&cluster).stream();
    node.netns().ip("link set eth0 name mgmt0").unwrap();
    eventually(FOLLOWED, || agent.log().contains("renamed"));
    stream.assert_nothing_lost(1);
    assert_eq!(mode(node, "mgmt0").as_deref(), Some("generic"));
    wait_until_ready(node);
}

#[test]
fn addresses_are_followed_as_they_come_and_go() {
    let cluster = one_node("address");
    let node = cluster.node(1);
    let _agent = start(node, "");
    let added = Ipv4Addr::new(10, 77, 0, 99);
    let mut prober = Prober::new(cluster.hub(), node, added);
    assert!(prober.ask().is_none());
    node.netns()
        .ip(&format!("address add {added}/24 dev eth0"))
        .unwrap();
    eventually(FOLLOWED, || prober.ask());
    node.netns()
        .ip(&format!("address delete {added}/24 dev eth0"))
        .unwrap();
    let addresses = || inspect(node)["node"]["addresses"].as_array().unwrap().len();
    eventually(FOLLOWED, || addresses() == 2);
}

#[test]
fn an_interface_that_was_down_answers_again() {
    let cluster = one_node("down");
    let node = cluster.node(1);
    let agent = start(node, "");
    node.netns().ip("link set eth0 down").unwrap();
    eventually(FOLLOWED, || agent.log().contains("state=\"down\""));
    node.netns().ip("link set eth0 up").unwrap();
    wait_for_answer(&mut prober(&cluster));
}

#[test]
fn the_interface_can_be_described_by_its_address() {
    let cluster = one_node("byaddr");
    let node = cluster.node(1);
    let config = node.agent_config("").replace(
        "management.interface = \"eth0\"",
        &format!("management.addresses = [\"{}\"]", node.ipv4()),
    );
    let _agent = node.spawn_agent(&config).unwrap();
    wait_for_answer(&mut prober(&cluster));
    let mut other = Prober::new(cluster.hub(), node, node.ipv6());
    assert!(other.ask().is_none(), "only the configured address answers");
}
