//! Gateway nodes with agents, and a node with nothing but the controller.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use controller::api::{EgressIp, Explanation, GatewayList, Node, State};
use pulsepath_tests::{Cluster, LinkState, Process, eventually};

/// Far longer than anything takes that is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);
/// The same, for the first moments of dozens of agents on a busy machine.
const PATIENCE_WITH_MANY: Duration = Duration::from_secs(90);
/// Fast, so that tests are, with two nodes, too; nobody is damped, however often it is cut.
pub(crate) const SETTINGS: &str = "period = '50ms'\ntimeout = '500ms'\nlease = '600ms'\ncontrol.plaintext = true\n\
                        failover.damping.count = 0\n";
/// Slower: so many nodes would keep a machine busy.
const SETTINGS_OF_MANY: &str = "period = '400ms'\ntimeout = '2s'\ncontrol.plaintext = true\n\
                                failover.damping.count = 0\n";
/// Begins each node of a configuration.
const NODE: &str = "[[nodes]]\n";
/// Patient, for the same reason.
const AGENTS_OF_MANY: &str = "beat.period = '500ms'\nbeat.timeout = '3s'\n";

/// The processes and, below them, the nodes. Dropped in this order, so that logs can be shown.
pub(crate) struct World {
    agents: BTreeMap<u8, Process>,
    controller: Option<Process>,
    pub(crate) cluster: Cluster,
    gateways: u8,
    /// The controller's settings.
    settings: String,
    /// The agents' further settings.
    agent_settings: String,
    /// What the gateway has besides its name and selector.
    gateway: String,
    unselected: BTreeSet<u8>,
    /// Nodes that the configuration does not have.
    deleted: BTreeSet<u8>,
}

impl World {
    /// `gateways` nodes with agents, selected by a gateway with these further settings, and the
    /// controller on one node more. Returns once all nodes are AVAILABLE.
    pub(crate) fn new(purpose: &str, gateways: u8, gateway: &str) -> Self {
        Self::with_settings(purpose, gateways, gateway, SETTINGS, "")
    }

    /// Two gateway nodes, and three more nodes with agents, so that most of the witnesses are there
    /// whichever gateway nodes are cut off. Returns once each gateway node has confirmed its witnesses.
    pub(crate) fn with_witnesses(purpose: &str, gateway: &str, settings: &str) -> Self {
        let unselected = BTreeSet::from([3, 4, 5]);
        let world = Self::start(purpose, 5, unselected, gateway, settings, "");
        eventually(PATIENCE, || {
            let list = world.gateways();
            let candidates = list.gateways.iter().flat_map(|it| &it.candidates);
            let leases = candidates.filter_map(|it| it.lease.as_ref());
            let confirmed = leases.filter(|it| it.confirmed && it.witnesses.len() == 3);
            match confirmed.count() {
                2 => Ok(()),
                _ => Err(format!("{list:?}")),
            }
        });
        world
    }

    /// As [`Self::new`], for dozens of nodes.
    pub(crate) fn with_many(purpose: &str, gateways: u8, gateway: &str) -> Self {
        Self::with_settings(purpose, gateways, gateway, SETTINGS_OF_MANY, AGENTS_OF_MANY)
    }

    /// As [`Self::new`], with these settings of the controller and further ones of the agents.
    pub(crate) fn with_settings(
        purpose: &str,
        gateways: u8,
        gateway: &str,
        settings: &str,
        agent_settings: &str,
    ) -> Self {
        let none = BTreeSet::new();
        Self::start(purpose, gateways, none, gateway, settings, agent_settings)
    }

    fn start(
        purpose: &str,
        gateways: u8,
        unselected: BTreeSet<u8>,
        gateway: &str,
        settings: &str,
        agent_settings: &str,
    ) -> Self {
        let cluster = Cluster::new(&format!("p-{purpose}"), gateways + 1).unwrap();
        let mut world = Self {
            cluster,
            agents: BTreeMap::new(),
            controller: None,
            gateways,
            settings: settings.to_owned(),
            agent_settings: agent_settings.to_owned(),
            gateway: gateway.to_owned(),
            unselected,
            deleted: BTreeSet::new(),
        };
        for index in 1..=gateways {
            world.spawn_agent(index);
        }
        for index in 1..=gateways {
            world.await_agent(index);
        }
        world.start_controller();
        for index in 1..=gateways {
            world.await_state(index, State::Available);
        }
        world
    }

    pub(crate) fn start_agent(&mut self, index: u8) {
        self.spawn_agent(index);
        self.await_agent(index);
    }

    fn spawn_agent(&mut self, index: u8) {
        let node = self.cluster.node(index);
        let settings = format!("control.plaintext = true\n{}", self.agent_settings);
        let agent = node.spawn_agent(&node.agent_config(&settings)).unwrap();
        self.agents.insert(index, agent);
    }

    fn await_agent(&self, index: u8) {
        let node = self.cluster.node(index);
        eventually(PATIENCE_WITH_MANY, || {
            node.agent_http("/ready").is_ok_and(|it| it.status == 200)
        });
    }

    pub(crate) fn kill_agent(&mut self, index: u8) {
        self.agents.remove(&index).unwrap().kill().unwrap();
    }

    fn place(&self) -> &pulsepath_tests::Node {
        self.cluster.node(self.gateways + 1)
    }

    fn config(&self) -> String {
        let label = |index| match index <= self.gateways && !self.unselected.contains(&index) {
            true => "egress = 'yes'",
            false => "",
        };
        let gateway = format!(
            "\n[[gateways]]\nname = 'gw'\nnode_selector = {{ egress = 'yes' }}\n{}\n",
            self.gateway
        );
        let whole = self
            .cluster
            .labelled_controller_config(&self.settings, label);
        let deleted = |part: &&str| {
            let mut deleted = self.deleted.iter();
            deleted.any(|index| part.contains(&format!("\"n{index}\"")))
        };
        let kept: Vec<_> = whole.split(NODE).filter(|it| !deleted(it)).collect();
        kept.join(NODE) + &gateway
    }

    /// The controller is killed, and another one started, from a file without node `index`.
    pub(crate) fn restart_controller_without(&mut self, index: u8) {
        self.deleted.insert(index);
        self.restart_controller();
    }

    fn start_controller(&mut self) {
        let process = self.place().spawn_controller(&self.config()).unwrap();
        self.controller = Some(process);
        eventually(PATIENCE, || {
            self.place()
                .controller_http("/live")
                .is_ok_and(|answer| answer.status == 200)
        });
    }

    /// The controller is killed, and another one started.
    pub(crate) fn restart_controller(&mut self) {
        self.controller.as_mut().unwrap().kill().unwrap();
        self.start_controller();
    }

    pub(crate) fn cut(&self, index: u8) {
        self.cluster.set_link(index, LinkState::Down).unwrap();
        self.await_state(index, State::Unreachable);
    }

    pub(crate) fn heal(&self, index: u8) {
        self.cluster.set_link(index, LinkState::Up).unwrap();
        self.await_state(index, State::Available);
    }

    /// Cuts many nodes at once.
    pub(crate) fn cut_all(&self, indices: &[u8]) {
        let links = indices.iter().copied();
        self.cluster.set_links(links, LinkState::Down).unwrap();
        for &index in indices {
            self.await_state(index, State::Unreachable);
        }
    }

    pub(crate) fn heal_all(&self, indices: &[u8]) {
        let links = indices.iter().copied();
        self.cluster.set_links(links, LinkState::Up).unwrap();
        for &index in indices {
            self.await_state(index, State::Available);
        }
    }

    pub(crate) fn set_controller_link(&self, state: LinkState) {
        self.cluster.set_link(self.gateways + 1, state).unwrap();
    }

    pub(crate) fn select(&mut self, index: u8, selected: bool) {
        match selected {
            true => self.unselected.remove(&index),
            false => self.unselected.insert(index),
        };
        fs::write(
            self.place().config_file("pulsepath-controller"),
            self.config(),
        )
        .unwrap();
    }

    pub(crate) fn post(&self, path: &str) {
        let answer = self.place().controller_post(path).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.body);
    }

    pub(crate) fn get(&self, path: &str) -> String {
        let answer = self.place().controller_http(path).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.body
    }

    pub(crate) fn metrics(&self) -> String {
        self.place().controller_http("/metrics").unwrap().body
    }

    pub(crate) fn await_state(&self, index: u8, state: State) {
        eventually(PATIENCE, || {
            let node = self.node(index);
            if node.state == state {
                Ok(())
            } else {
                Err(node.state)
            }
        });
    }

    pub(crate) fn node(&self, index: u8) -> Node {
        serde_json::from_str(&self.get(&format!("/v1/nodes/n{index}"))).unwrap()
    }

    pub(crate) fn gateways(&self) -> GatewayList {
        serde_json::from_str(&self.get("/v1/gateways")).unwrap()
    }

    pub(crate) fn addresses(&self) -> Vec<EgressIp> {
        let gateways = self.gateways().gateways;
        gateways
            .into_iter()
            .flat_map(|gateway| gateway.addresses)
            .collect()
    }

    pub(crate) fn owners(&self) -> Vec<Option<String>> {
        self.addresses()
            .into_iter()
            .map(|address| address.owner)
            .collect()
    }

    pub(crate) fn explain(&self, subject: &str) -> String {
        let text = self.get(&format!("/v1/explain/{subject}"));
        let explanation: Explanation = serde_json::from_str(&text).unwrap();
        explanation.sentences.join(" ")
    }

    /// Waits until the only address belongs to this node, or to nobody, and is at rest.
    pub(crate) fn await_owner(&self, owner: Option<u8>) {
        let owner = owner.map(|index| format!("n{index}"));
        eventually(PATIENCE, || {
            let address = self.addresses().remove(0);
            if address.owner == owner && address.phase.is_none() {
                Ok(())
            } else {
                Err(format!("{address:?}, {:?}", self.gateways().failover))
            }
        });
    }

    /// Waits until so many addresses have an owner.
    pub(crate) fn await_assigned(&self, count: usize) {
        eventually(PATIENCE, || {
            let assigned = self
                .addresses()
                .iter()
                .filter(|it| it.owner.is_some())
                .count();
            if assigned == count {
                Ok(())
            } else {
                Err(assigned)
            }
        });
    }

    /// Whether the node's own kernel has the address.
    pub(crate) fn holds(&self, index: u8, address: &str) -> bool {
        let node = self.cluster.node(index);
        let text = node.netns().ip("-o address show dev eth0").unwrap();
        text.contains(&format!(" {address}/"))
    }
}
