//! A node with an agent, and what it says of itself.

use std::time::Duration;

use pulsepath_tests::{Cluster, Node, Process, bin_dir, eventually, run};
use serde_json::Value;

use crate::probe::Prober;

/// How long anything may take that should happen at once, on a machine that is busy: an agent that
/// starts has the kernel verify its programs.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// A cluster of one.
pub(crate) fn one_node(purpose: &str) -> Cluster {
    Cluster::new(&format!("agent-{purpose}"), 1).unwrap()
}

/// Starts an agent and waits until it is ready.
pub(crate) fn start(node: &Node, settings: &str) -> Process {
    let agent = node.spawn_agent(&node.agent_config(settings)).unwrap();
    wait_until_ready(node);
    agent
}

/// Starts an agent that gives up, and returns what it said.
pub(crate) fn start_in_vain(node: &Node, config: &str) -> String {
    let mut agent = node.spawn_agent(config).unwrap();
    let status = agent.wait(SOON).unwrap();
    assert_eq!(status.code(), Some(1), "{}", agent.log());
    agent.log()
}

pub(crate) fn wait_until_ready(node: &Node) {
    eventually(SOON, || match node.agent_http("/ready") {
        Ok(response) if response.status == 200 => Ok(()),
        Ok(response) => Err(response.body),
        Err(error) => Err(format!("{error:#}")),
    });
}

/// What `/ready` says when it is not ready.
pub(crate) fn reason_not_ready(node: &Node) -> Option<String> {
    let response = node.agent_http("/ready").ok()?;
    (response.status == 503).then_some(response.body)
}

/// A subcommand of the agent, run in the node.
pub(crate) fn agent(node: &Node, arguments: &[&str]) -> anyhow::Result<String> {
    let program = bin_dir()?.join("pulsepath-agent");
    let pin_dir = node.pin_dir().to_str().unwrap();
    run(node
        .netns()
        .command(program)
        .args(arguments)
        .args(["--pin-dir", pin_dir]))
}

/// What `inspect -o json` says.
pub(crate) fn inspect(node: &Node) -> Value {
    serde_json::from_str(&agent(node, &["inspect", "-o", "json"]).unwrap()).unwrap()
}

/// Mode of the attachment to an interface, as `inspect` says it.
pub(crate) fn mode(node: &Node, interface: &str) -> Option<String> {
    attachment(&inspect(node), interface).map(|it| it["mode"].as_str().unwrap().to_owned())
}

/// An interface's attachment in what `inspect` says.
pub(crate) fn attachment(report: &Value, interface: &str) -> Option<Value> {
    let all = report["attachments"].as_array().unwrap();
    all.iter().find(|it| it["interface"] == interface).cloned()
}

/// Probes the node's IPv4 address from the hub.
pub(crate) fn prober(cluster: &Cluster) -> Prober {
    let node = cluster.node(1);
    Prober::new(cluster.hub(), node, node.ipv4())
}

/// Waits until the node answers a probe.
pub(crate) fn wait_for_answer(prober: &mut Prober) -> probe_ebpf::wire::probe::Reply {
    eventually(SOON, || prober.ask())
}

/// A metric's line without its value, or all that the agent shows.
pub(crate) fn metrics(node: &Node) -> String {
    node.agent_http("/metrics").unwrap().body
}
