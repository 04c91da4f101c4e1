//! The prober inside a real controller judges itself before it blames a node.

use std::thread;
use std::time::Duration;

use controller::api::{NodeList, State};
use pulsepath_tests::{Cluster, Process, Signal, eventually, run};

use crate::scene::{PATIENCE, start_agent};

const STALL: Duration = Duration::from_secs(2);
const NODES: u8 = 3;

struct Scene {
    controller: Process,
    _agents: Vec<Process>,
    cluster: Cluster,
}

impl Scene {
    /// Nodes with agents, all AVAILABLE to a controller on the first, whose timeout is far
    /// shorter than the stall. The agents' is longer: they are not what is tested.
    fn new(purpose: &str) -> Self {
        let cluster = Cluster::new(purpose, NODES).unwrap();
        let agents = (1..=NODES)
            .map(|index| start_agent(&cluster, index, "beat.timeout = '5s'\n"))
            .collect();
        let config = cluster.controller_config("period = '50ms'\ntimeout = '300ms'\n");
        let controller = cluster.node(1).spawn_controller(&config).unwrap();
        let scene = Self {
            controller,
            _agents: agents,
            cluster,
        };
        eventually(PATIENCE, || {
            scene
                .try_nodes()
                .is_some_and(|list| list.nodes.iter().all(|node| node.state == State::Available))
        });
        scene
    }

    fn try_nodes(&self) -> Option<NodeList> {
        let answer = self.cluster.node(1).controller_http("/v1/nodes").ok()?;
        serde_json::from_str(&answer.body).ok()
    }

    fn nodes(&self) -> NodeList {
        self.try_nodes().unwrap()
    }

    /// Waits until every node has answered since `within` ago.
    fn await_replies(&self, within: Duration) {
        eventually(PATIENCE, || {
            self.try_nodes().is_some_and(|list| {
                let recent = |ago: f64| ago < within.as_secs_f64() * 1e3;
                list.nodes
                    .iter()
                    .all(|node| node.last_reply_ago_ms.is_some_and(recent))
            })
        });
    }

    fn assert_no_transition_since(&self, before: &NodeList) {
        let after = self.nodes();
        for (before, after) in before.nodes.iter().zip(&after.nodes) {
            assert_eq!(
                (after.state, after.since),
                (State::Available, before.since),
                "{after:?}"
            );
        }
    }
}

#[test]
fn a_controller_that_was_stopped_blames_no_node() {
    let scene = Scene::new("p-sigstop");
    let before = scene.nodes();
    scene.controller.signal(Signal::SIGSTOP).unwrap();
    thread::sleep(STALL);
    scene.controller.signal(Signal::SIGCONT).unwrap();
    scene.await_replies(Duration::from_millis(100));
    scene.assert_no_transition_since(&before);
}

#[test]
fn a_controller_whose_host_sends_nothing_blames_no_node() {
    let scene = Scene::new("p-mute");
    let before = scene.nodes();
    let tc = |arguments: &[&str]| {
        run(scene.cluster.node(1).netns().command("tc").args(arguments)).unwrap();
    };
    tc(&["qdisc", "add", "dev", "eth0", "clsact"]);
    let drop = "1,6 0 0 2,";
    tc(&[
        "filter",
        "add",
        "dev",
        "eth0",
        "egress",
        "bpf",
        "direct-action",
        "bytecode",
        drop,
    ]);
    thread::sleep(STALL);
    tc(&["qdisc", "del", "dev", "eth0", "clsact"]);
    scene.await_replies(Duration::from_millis(100));
    scene.assert_no_transition_since(&before);
}
