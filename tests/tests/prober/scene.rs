//! Nodes with agents, and the command line client.

use std::process::Output;
use std::time::Duration;

use pulsepath_tests::{Cluster, Netns, Process, bin_dir, eventually};

/// Far longer than anything takes that is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Starts the agent of node `index`, and waits until it is ready.
pub(crate) fn start_agent(cluster: &Cluster, index: u8, settings: &str) -> Process {
    let node = cluster.node(index);
    let mut agent = node.spawn_agent(&node.agent_config(settings)).unwrap();
    eventually(PATIENCE, || match agent.exited() {
        Some(status) => panic!("the agent ended: {status}\n{}", agent.log()),
        None => node
            .agent_http("/ready")
            .is_ok_and(|answer| answer.status == 200),
    });
    agent
}

/// Runs `pulsepath` inside a namespace, to its end.
pub(crate) fn pulsepath(netns: &Netns, arguments: &[&str]) -> Output {
    let program = bin_dir().unwrap().join("pulsepath");
    netns.command(program).args(arguments).output().unwrap()
}

/// What a program printed on standard output.
pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// What a program printed on standard error.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}
