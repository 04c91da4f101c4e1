//! A whole installation: nodes with agents, an external segment, and a controller that gives egress
//! IPs to some of the nodes.

mod files;
mod view;

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use controller::api::State;

use super::{CLIENTS, EGRESS_IP, External};
use crate::{Cluster, LinkState, Node, Process, Signal, within};

pub use self::view::PATIENCE;

/// Loading an agent's programs is a second's work for the kernel, and far more on a busy machine.
const STARTING: Duration = Duration::from_secs(60);

/// What a [`Scene`] is made of.
#[derive(Clone, Debug)]
pub struct Setup {
    /// How many nodes there are, each with an agent.
    pub nodes: u8,
    /// The nodes that may own egress IPs.
    pub candidates: Vec<u8>,
    /// The node that the controller is on.
    pub controller: u8,
    /// The controller's settings (TOML): top-level keys, dotted ones included.
    pub settings: String,
    /// As `settings`, for every agent.
    pub agent_settings: String,
    /// What the gateway owns: addresses, ranges and prefixes.
    pub egress_ips: Vec<String>,
    /// Whose packets leave from them: prefixes of the same families.
    pub sources: Vec<String>,
    /// The gateway's further settings (TOML).
    pub gateway: String,
    /// As in Kubernetes: nodes have no keys at first, and all agents share one certificate.
    pub shared: bool,
}

impl Default for Setup {
    /// Four nodes, of which the first two may own one address each; the client's egress IP.
    fn default() -> Self {
        Self {
            nodes: 4,
            candidates: vec![1, 2],
            controller: 4,
            settings: String::new(),
            agent_settings: String::new(),
            egress_ips: vec![EGRESS_IP.to_string()],
            sources: vec![CLIENTS.to_owned()],
            gateway: "max_per_node = 1".to_owned(),
            shared: false,
        }
    }
}

impl Setup {
    /// The gateway's part of the controller's configuration.
    fn gateway(&self) -> String {
        format!(
            "\n[[gateways]]\nname = \"gw\"\nnode_selector = {{ egress = \"yes\" }}\n\
             egress_ips = {:?}\nsources = {:?}\n{}\n",
            self.egress_ips, self.sources, self.gateway
        )
    }
}

/// The processes and, below them, nodes and segments. Dropped in this order.
#[derive(Debug)]
pub struct Scene {
    agents: BTreeMap<u8, Process>,
    controller: Option<Process>,
    setup: Setup,
    external: External,
    cluster: Cluster,
}

impl Scene {
    /// Nodes, segments and certificates, without any process yet.
    ///
    /// # Errors
    /// The network or the files cannot be made.
    pub fn new(purpose: &str, setup: Setup) -> Result<Self> {
        let cluster = Cluster::new(purpose, setup.nodes)?;
        let external = External::new(purpose, &cluster)?;
        if setup.shared {
            files::share(&cluster)?;
        } else {
            files::make_certificates(&cluster)?;
        }
        Ok(Self {
            agents: BTreeMap::new(),
            controller: None,
            setup,
            external,
            cluster,
        })
    }

    /// As [`Self::new`], and all agents and the controller run, all nodes are AVAILABLE and all
    /// egress IPs announced by an owner.
    ///
    /// # Errors
    /// Anything of that does not come to be within [`PATIENCE`].
    pub fn start(purpose: &str, setup: Setup) -> Result<Self> {
        let mut scene = Self::new(purpose, setup)?;
        scene.start_agents()?;
        scene.start_controller()?;
        for index in scene.indices() {
            scene.await_state(index, State::Available)?;
        }
        scene.await_announced()?;
        Ok(scene)
    }

    /// What it is made of.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// The numbers of all nodes.
    pub fn indices(&self) -> impl Iterator<Item = u8> + use<> {
        1..=self.setup.nodes
    }

    /// The nodes.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The external segment, with client and server.
    pub fn external(&self) -> &External {
        &self.external
    }

    /// Node `index`.
    pub fn node(&self, index: u8) -> &Node {
        self.cluster.node(index)
    }

    /// The node that the controller is on.
    pub fn controller_node(&self) -> &Node {
        self.node(self.setup.controller)
    }

    /// Starts all agents and waits until they are ready: otherwise the controller's first
    /// impression of a node may be that it is unreachable.
    ///
    /// # Errors
    /// One does not start, or is not ready within a minute.
    pub fn start_agents(&mut self) -> Result<()> {
        // Were the agents of many scenes started together, none would be ready soon.
        static ALONE: Mutex<()> = Mutex::new(());
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        for index in self.indices() {
            self.spawn_agent(index)?;
        }
        self.indices().try_for_each(|index| self.await_agent(index))
    }

    /// Starts the agent of node `index`, without waiting for it.
    ///
    /// # Errors
    /// It does not start.
    pub fn spawn_agent(&mut self, index: u8) -> Result<()> {
        let node = self.cluster.node(index);
        let control = match self.setup.shared {
            true => files::shared_control(&self.cluster, files::AGENTS),
            false => files::control(&self.cluster, &node.name()),
        };
        let config = node.agent_config(&format!("{control}{}", self.setup.agent_settings));
        self.agents.insert(index, node.spawn_agent(&config)?);
        Ok(())
    }

    /// Waits until the agent of node `index` is ready.
    ///
    /// # Errors
    /// It ends, or is not ready within a minute.
    pub fn await_agent(&mut self, index: u8) -> Result<()> {
        let node = self.cluster.node(index);
        let agent = self.agents.get_mut(&index);
        let agent = agent.context("this agent was not started")?;
        await_ready(agent, || Ok(node.agent_http("/ready")?.status))
            .with_context(|| format!("agent of {}", node.name()))
    }

    /// The agent of node `index`, which nobody looks after any more: it is killed on drop.
    ///
    /// # Errors
    /// It does not run.
    pub fn take_agent(&mut self, index: u8) -> Result<Process> {
        let agent = self.agents.remove(&index);
        agent.with_context(|| format!("the agent of n{index} does not run"))
    }

    /// Sends a signal to the agent of node `index`.
    ///
    /// # Errors
    /// It does not run.
    pub fn signal_agent(&self, index: u8, signal: Signal) -> Result<()> {
        let agent = self.agents.get(&index);
        agent
            .with_context(|| format!("the agent of n{index} does not run"))?
            .signal(signal)
    }

    /// Kills the agent of node `index` and starts it again.
    ///
    /// # Errors
    /// It did not run, or is not ready again within a minute.
    pub fn restart_agent(&mut self, index: u8) -> Result<()> {
        self.take_agent(index)?.kill()?;
        self.spawn_agent(index)?;
        self.await_agent(index)
    }

    /// Starts the controller and waits until it is ready.
    ///
    /// # Errors
    /// It does not start, ends, or is not ready within a minute.
    pub fn start_controller(&mut self) -> Result<()> {
        let config = self.config();
        let node = self.cluster.node(self.setup.controller);
        let controller = self.controller.insert(node.spawn_controller(&config)?);
        await_ready(controller, || Ok(node.controller_http("/live")?.status)).context("controller")
    }

    /// Settings of any controller for these nodes: cluster key and control channel.
    pub fn controller_settings(&self) -> String {
        let control = files::control(&self.cluster, "controller");
        format!(
            "cluster_key_file = {:?}\n{control}",
            self.cluster.key_file()
        )
    }

    /// Sends a signal to the controller.
    ///
    /// # Errors
    /// It does not run.
    pub fn signal_controller(&self, signal: Signal) -> Result<()> {
        let controller = self.controller.as_ref();
        controller
            .context("the controller does not run")?
            .signal(signal)
    }

    /// The controller, which nobody looks after any more: it is killed on drop.
    ///
    /// # Errors
    /// It does not run.
    pub fn take_controller(&mut self) -> Result<Process> {
        self.controller
            .take()
            .context("the controller does not run")
    }

    /// Has the gateway select these nodes, and no others, and waits until the controller knows.
    ///
    /// # Errors
    /// The controller does not take its new configuration.
    pub fn select(&mut self, candidates: &[u8]) -> Result<()> {
        self.setup.candidates = candidates.to_vec();
        self.write_config()?;
        self.await_candidates(candidates)
    }

    /// Gives the gateway these egress IPs, and no others, and waits until the controller knows.
    ///
    /// # Errors
    /// The controller does not take its new configuration.
    pub fn set_egress_ips(&mut self, egress_ips: &[IpAddr]) -> Result<()> {
        self.setup.egress_ips = egress_ips.iter().map(IpAddr::to_string).collect();
        self.write_config()?;
        self.await_addresses(egress_ips)
    }

    fn write_config(&self) -> Result<()> {
        let file = (self.controller_node()).config_file("pulsepath-controller");
        fs::write(&file, self.config()).with_context(|| format!("write {}", file.display()))
    }

    /// The controller's configuration.
    fn config(&self) -> String {
        let control = match self.setup.shared {
            true => files::shared_control(&self.cluster, files::CONTROLLERS),
            false => files::control(&self.cluster, "controller"),
        };
        let settings = format!("{}\n{control}", self.setup.settings);
        let labels = |index| match self.setup.candidates.contains(&index) {
            true => "egress = \"yes\"",
            false => "",
        };
        self.cluster.labelled_controller_config(&settings, labels) + &self.setup.gateway()
    }

    /// Takes all links of node `index` away, or gives them back.
    ///
    /// # Errors
    /// `ip` fails.
    pub fn set_links(&self, index: u8, state: LinkState) -> Result<()> {
        self.cluster.set_link(index, state)?;
        self.external.set_link(index, state)
    }

    /// Takes all links of node `index` away.
    ///
    /// # Errors
    /// `ip` fails.
    pub fn cut(&self, index: u8) -> Result<()> {
        self.set_links(index, LinkState::Down)
    }

    /// Gives node `index` its links back, and waits until it is AVAILABLE.
    ///
    /// # Errors
    /// It is not within [`PATIENCE`].
    pub fn heal(&self, index: u8) -> Result<()> {
        self.set_links(index, LinkState::Up)?;
        self.await_state(index, State::Available)
    }

    /// Asks for everything to be moved away from node `index`, once.
    ///
    /// # Errors
    /// The controller refuses.
    pub fn drain(&self, index: u8) -> Result<()> {
        self.post(&format!("/v1/nodes/n{index}/drain"))
    }

    /// Lets node `index` own addresses again.
    ///
    /// # Errors
    /// The controller refuses.
    pub fn undrain(&self, index: u8) -> Result<()> {
        self.post(&format!("/v1/nodes/n{index}/undrain"))
    }

    fn post(&self, path: &str) -> Result<()> {
        let answer = self.controller_node().controller_post(path)?;
        ensure!(answer.status == 200, "{path}: {answer:?}");
        Ok(())
    }

    /// Fails if a process that should run has ended.
    ///
    /// # Errors
    /// With what it wrote.
    pub fn check_alive(&mut self) -> Result<()> {
        for process in self.agents.values_mut().chain(&mut self.controller) {
            if let Some(status) = process.exited() {
                return Err(anyhow!("a daemon ended: {status}\n{}", process.log()));
            }
        }
        Ok(())
    }

    /// What the daemons that run have written, for a story that went wrong.
    pub fn logs(&self) -> String {
        let processes = self.agents.values().chain(&self.controller);
        processes.map(Process::log).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // An outage of the controller is one of the reasons to be here.
            eprintln!("{:?}", self.gateways());
        }
    }
}

/// Waits until `process` answers with status 200.
fn await_ready(process: &mut Process, mut status: impl FnMut() -> Result<u16>) -> Result<()> {
    let outcome = within(STARTING, || match (process.exited(), status()) {
        (Some(status), _) => Ok(Some(status)),
        (None, Ok(200)) => Ok(None),
        (None, answer) => Err(answer),
    });
    match outcome {
        Ok(None) => Ok(()),
        Ok(Some(status)) => Err(anyhow!("ended at once: {status}\n{}", process.log())),
        Err(reason) => Err(anyhow!("not ready: {reason}\n{}", process.log())),
    }
}
