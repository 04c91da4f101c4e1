//! Nodes whose agents attach in a given mode, and a controller on the first of them.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use controller::api::{NodeList, State};
use pulsepath_tests::kernel::Reflector;
use pulsepath_tests::{Cluster, Process, eventually, run};

pub(crate) const PERIOD: Duration = Duration::from_millis(50);
pub(crate) const TIMEOUT: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(10);
/// The nodes whose links are cut and whose agents are killed; the controller is on the first.
pub(crate) const VICTIMS: RangeInclusive<u8> = 2..=6;

/// How a node's agent attaches, and how large frames may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mode {
    pub(crate) attach: &'static str,
    pub(crate) mtu: u16,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, MTU {}", self.attach, self.mtu)
    }
}

pub(crate) struct Scene {
    agents: BTreeMap<u8, Process>,
    controller: Process,
    agent_settings: String,
    pub(crate) cluster: Cluster,
    /// What the hub's ports run: frames that native XDP sends arrive nowhere else.
    _pass: Option<Reflector>,
    /// Measurements disturb each other: one at a time.
    _alone: MutexGuard<'static, ()>,
}

impl Scene {
    /// Nodes that the controller on the first sees AVAILABLE. `settings` are their agents', beside
    /// the mode.
    pub(crate) fn new(purpose: &str, mode: Mode, settings: &str) -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let cluster = Cluster::new(purpose, *VICTIMS.end()).unwrap();
        for index in 1..=*VICTIMS.end() {
            cluster.set_mtu(index, mode.mtu).unwrap();
        }
        let pass = (mode.attach == "native").then(|| prepare_native(&cluster, purpose));
        let timing = format!(
            "period = '{}ms'\ntimeout = '{}ms'\n",
            PERIOD.as_millis(),
            TIMEOUT.as_millis()
        );
        let agent_settings = format!("reflector.attach = '{}'\n{settings}\n", mode.attach);
        let agents = start_agents(&cluster, 1..=*VICTIMS.end(), &agent_settings);
        let config = cluster.controller_config(&timing);
        let controller = cluster.node(1).spawn_controller(&config).unwrap();
        let scene = Self {
            agents,
            controller,
            agent_settings,
            cluster,
            _pass: pass,
            _alone: alone,
        };
        scene.await_all_available();
        scene
    }

    /// Kills the agent of node `index`.
    pub(crate) fn kill_agent(&mut self, index: u8) {
        self.agents.remove(&index).unwrap().kill().unwrap();
    }

    /// Starts the victims' agents again.
    pub(crate) fn start_victims(&mut self) {
        self.agents
            .extend(start_agents(&self.cluster, VICTIMS, &self.agent_settings));
    }

    fn await_all_available(&self) {
        eventually(PATIENCE, || {
            let body = self.cluster.node(1).controller_http("/v1/nodes")?.body;
            let list: NodeList = serde_json::from_str(&body)?;
            let available = list.nodes.iter().all(|node| node.state == State::Available);
            anyhow::ensure!(available, "{list:?}");
            anyhow::Ok(())
        });
    }

    /// Probes that were not answered, once it is known of all that have been sent so far.
    pub(crate) fn lost(&self) -> u64 {
        // A probe is lost when the reply window, the timeout, is over.
        let periods = u64::try_from(TIMEOUT.as_nanos() / PERIOD.as_nanos()).unwrap() + 2;
        let rounds = || self.sum_of("pulsepath_prober_rounds_total");
        let known = rounds() + periods * self.cluster.nodes().len() as u64;
        eventually(PATIENCE, || rounds() >= known);
        self.sum_of("pulsepath_probes_lost_total")
    }

    /// The sum of a metric over all its labels.
    fn sum_of(&self, name: &str) -> u64 {
        let response = self.cluster.node(1).controller_http("/metrics").unwrap();
        let value = |line: &str| -> Option<u64> {
            let rest = line.strip_prefix(name)?;
            rest.rsplit_once(' ')?.1.parse().ok()
        };
        let values: Vec<u64> = response.body.lines().filter_map(value).collect();
        assert!(!values.is_empty(), "no {name} in\n{}", response.body);
        values.iter().sum()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the controller's log:\n{}", self.controller.log());
        }
    }
}

fn start_agents(
    cluster: &Cluster,
    indices: RangeInclusive<u8>,
    settings: &str,
) -> BTreeMap<u8, Process> {
    let start = |index| {
        let node = cluster.node(index);
        (
            index,
            node.spawn_agent(&node.agent_config(settings)).unwrap(),
        )
    };
    let mut agents: BTreeMap<u8, Process> = indices.map(start).collect();
    for (index, agent) in &mut agents {
        let node = cluster.node(*index);
        eventually(PATIENCE, || {
            match (agent.exited(), node.agent_http("/ready")) {
                (Some(status), _) => panic!("the agent ended: {status}\n{}", agent.log()),
                (None, answer) => answer.is_ok_and(|answer| answer.status == 200),
            }
        });
    }
    agents
}

/// What native XDP on veth needs: a program at the other end, and whole checksums from the sender.
fn prepare_native(cluster: &Cluster, purpose: &str) -> Reflector {
    // Without an address of its own it lets everything pass.
    let pass = Reflector::load(&format!("{purpose}-pass")).unwrap();
    let program = pass.directory().join("reflect_xdp");
    for node in cluster.nodes() {
        let mut attach: Command = cluster.hub().command("ip");
        attach
            .args(["link", "set", "dev", &node.port(), "xdpdrv", "pinned"])
            .arg(&program);
        run(&mut attach).unwrap();
        let mut offload = node.netns().command("ethtool");
        run(offload.args(["-K", "eth0", "tx", "off"])).unwrap();
    }
    pass
}
