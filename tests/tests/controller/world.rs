//! Nodes with agents, and a controller on the first of them.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use controller::api::{Node, NodeList, State};
use pulsepath_tests::{Cluster, Process, eventually};

/// Far longer than anything takes that is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// Settings of the controller: fast, so that tests are.
pub(crate) const FAST: &str = "period = '50ms'\ntimeout = '500ms'\n";

pub(crate) struct World {
    pub(crate) controller: Option<Process>,
    agents: BTreeMap<u8, Process>,
    pub(crate) cluster: Cluster,
}

impl World {
    /// So many nodes, no process yet.
    pub(crate) fn new(purpose: &str, nodes: u8) -> Self {
        let cluster = Cluster::new(purpose, nodes).unwrap();
        Self {
            controller: None,
            agents: BTreeMap::new(),
            cluster,
        }
    }

    /// So many nodes with agents, and a controller that has seen them all AVAILABLE.
    pub(crate) fn all_available(purpose: &str, nodes: u8) -> Self {
        let mut world = Self::new(purpose, nodes);
        for index in 1..=nodes {
            world.start_agent(index);
        }
        world.start_controller(&world.config());
        for index in 1..=nodes {
            world.await_state(&format!("n{index}"), State::Available);
        }
        world
    }

    pub(crate) fn config(&self) -> String {
        self.cluster.controller_config(FAST)
    }

    pub(crate) fn start_agent(&mut self, index: u8) {
        let node = self.cluster.node(index);
        let agent = node.spawn_agent(&node.agent_config("")).unwrap();
        let agent = self.agents.entry(index).insert_entry(agent).into_mut();
        eventually(PATIENCE, || {
            match (agent.exited(), node.agent_http("/ready")) {
                (Some(status), _) => panic!("the agent ended: {status}\n{}", agent.log()),
                (None, answer) => answer.is_ok_and(|answer| answer.status == 200),
            }
        });
    }

    pub(crate) fn kill_agent(&mut self, index: u8) {
        self.agents.remove(&index).unwrap().kill().unwrap();
    }

    /// Starts a controller, and waits until it shows its nodes.
    pub(crate) fn start_controller(&mut self, config: &str) {
        let process = self.cluster.node(1).spawn_controller(config).unwrap();
        self.controller = Some(process);
        self.await_controller();
    }

    /// Starts a controller that is expected to give up at once, and returns what it says.
    pub(crate) fn refused_controller(&self, config: &str) -> String {
        let mut process = self.cluster.node(1).spawn_controller(config).unwrap();
        let status = process.wait(PATIENCE).unwrap();
        assert!(!status.success(), "it ended well:\n{}", process.log());
        process.log()
    }

    pub(crate) fn await_controller(&mut self) {
        let controller = self.controller.as_mut().unwrap();
        let node = self.cluster.node(1);
        eventually(PATIENCE, || {
            match (controller.exited(), node.controller_http("/live")) {
                (Some(status), _) => panic!("the controller ended: {status}\n{}", controller.log()),
                (None, answer) => answer.is_ok_and(|answer| answer.status == 200),
            }
        });
    }

    pub(crate) fn controller(&mut self) -> &mut Process {
        self.controller.as_mut().unwrap()
    }

    pub(crate) fn controller_log(&self) -> String {
        self.controller
            .as_ref()
            .map(Process::log)
            .unwrap_or_default()
    }

    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        let response = self.cluster.node(1).controller_http(path).unwrap();
        (response.status, response.body)
    }

    pub(crate) fn nodes(&self) -> Vec<Node> {
        let (status, body) = self.get("/v1/nodes");
        assert_eq!(status, 200, "{body}");
        serde_json::from_str::<NodeList>(&body).unwrap().nodes
    }

    pub(crate) fn node(&self, name: &str) -> Node {
        let (status, body) = self.get(&format!("/v1/nodes/{name}"));
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    pub(crate) fn await_state(&self, name: &str, state: State) {
        eventually(PATIENCE, || {
            let node = self.node(name);
            if node.state == state {
                Ok(())
            } else {
                Err(Box::new(node))
            }
        });
    }

    /// Waits until every node has been probed so many times more, so that whatever is on its way
    /// has been answered or is lost: the reply window is 10 rounds long.
    pub(crate) fn await_rounds(&self, count: usize) {
        let rounds = || self.metric("pulsepath_prober_rounds_total");
        let enough = rounds() + (count * self.cluster.nodes().len()) as f64;
        eventually(PATIENCE, || rounds() >= enough);
    }

    /// The value of a metric; the name as it is printed, labels included.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let (_, body) = self.get("/metrics");
        let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
        body.lines()
            .find_map(value)
            .unwrap_or_else(|| panic!("no {name} in\n{body}"))
    }

    pub(crate) fn config_file(&self) -> PathBuf {
        self.cluster.node(1).config_file("pulsepath-controller")
    }

    pub(crate) fn state_file(&self) -> PathBuf {
        self.cluster.files().join("controller-state.json")
    }

    /// Writes the configuration anew, in place.
    pub(crate) fn rewrite_config(&self, config: &str) {
        fs::write(self.config_file(), config).unwrap();
    }

    /// A configuration with these nodes instead of all.
    pub(crate) fn config_of(&self, nodes: &[(&str, &[IpAddr])]) -> String {
        let whole = self.config();
        let head = whole.split("[[nodes]]").next().unwrap().to_owned();
        let node = |(name, addresses): &(&str, &[IpAddr])| {
            let addresses: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
            format!("[[nodes]]\nname = {name:?}\naddresses = {addresses:?}\n")
        };
        head + &nodes.iter().map(node).collect::<String>()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the controller's log:\n{}", self.controller_log());
        }
    }
}
