//! Two nodes that may own egress IPs, two others, and a controller on the last of them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use controller::api::{EgressIp, GatewayList, Node, ReportState, State};
use pulsepath_tests::egress::{CLIENTS, EGRESS_IP, External};
use pulsepath_tests::{Cluster, LinkState, Process, bin_dir, eventually, run};

/// Far longer than anything takes that is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// The nodes that may own egress IPs.
const CANDIDATES: [u8; 2] = [1, 2];
pub(crate) const NODES: u8 = 4;
const CONTROLLER: u8 = NODES;

pub(crate) struct Scene {
    agents: BTreeMap<u8, Process>,
    controller: Process,
    settings: String,
    egress_ips: String,
    pub(crate) external: External,
    pub(crate) cluster: Cluster,
    /// Measurements disturb each other: one at a time.
    _alone: MutexGuard<'static, ()>,
}

impl Scene {
    /// All nodes AVAILABLE, all of `egress_ips` announced by an owner. `settings` are the
    /// controller's.
    pub(crate) fn new(purpose: &str, settings: &str, egress_ips: &[&str]) -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let cluster = Cluster::new(purpose, NODES).unwrap();
        let external = External::new(purpose, &cluster).unwrap();
        make_certificates(&cluster);
        let agents = (1..=NODES).map(|index| (index, spawn_agent(&cluster, index)));
        let agents = agents.collect();
        // Otherwise the controller's first impression of a node may be that it is unreachable.
        for index in 1..=NODES {
            await_agent(&cluster, index);
        }
        let egress_ips = format!("{egress_ips:?}");
        let config = config(&cluster, settings, &egress_ips, &CANDIDATES);
        let controller = cluster.node(CONTROLLER).spawn_controller(&config).unwrap();
        let scene = Self {
            agents,
            controller,
            settings: settings.to_owned(),
            egress_ips,
            external,
            cluster,
            _alone: alone,
        };
        for index in 1..=NODES {
            scene.await_state(index, State::Available);
        }
        eventually(PATIENCE, || {
            let addresses = scene.addresses()?;
            anyhow::ensure!(addresses.iter().all(is_announced), "{addresses:?}");
            anyhow::Ok(())
        });
        scene
    }

    /// With one egress IP: the one that the client's packets go through.
    pub(crate) fn with_one_address(purpose: &str, settings: &str) -> Self {
        Self::new(purpose, settings, &[&EGRESS_IP.to_string()])
    }

    /// Takes all links of node `index` away, or gives them back.
    pub(crate) fn set_links(&self, index: u8, state: LinkState) {
        self.cluster.set_link(index, state).unwrap();
        self.external.set_link(index, state).unwrap();
    }

    pub(crate) fn cut(&self, index: u8) {
        self.set_links(index, LinkState::Down);
    }

    /// Gives node `index` its links back, and waits until that is known.
    pub(crate) fn heal(&self, index: u8) {
        self.set_links(index, LinkState::Up);
        self.await_state(index, State::Available);
    }

    pub(crate) fn drain(&self, index: u8) {
        self.post(&format!("/v1/nodes/n{index}/drain"));
    }

    pub(crate) fn undrain(&self, index: u8) {
        self.post(&format!("/v1/nodes/n{index}/undrain"));
    }

    fn post(&self, path: &str) {
        let answer = self.cluster.node(CONTROLLER).controller_post(path).unwrap();
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
    }

    /// Has the gateway select these nodes, and no others.
    pub(crate) fn select(&self, candidates: &[u8]) {
        let config = config(&self.cluster, &self.settings, &self.egress_ips, candidates);
        let node = self.cluster.node(CONTROLLER);
        std::fs::write(node.config_file("pulsepath-controller"), config).unwrap();
        eventually(PATIENCE, || {
            let gateways = self.gateways()?;
            let selected: Vec<_> = gateways.gateways[0].candidates.iter().collect();
            anyhow::ensure!(selected.len() == candidates.len(), "{selected:?}");
            anyhow::Ok(())
        });
    }

    /// Kills the agent of node `index` and starts it again.
    pub(crate) fn restart_agent(&mut self, index: u8) {
        self.agents.get_mut(&index).unwrap().kill().unwrap();
        self.agents.insert(index, spawn_agent(&self.cluster, index));
        await_agent(&self.cluster, index);
    }

    pub(crate) fn gateways(&self) -> anyhow::Result<GatewayList> {
        let node = self.cluster.node(CONTROLLER);
        let body = node.controller_http("/v1/gateways")?.body;
        Ok(serde_json::from_str(&body)?)
    }

    pub(crate) fn addresses(&self) -> anyhow::Result<Vec<EgressIp>> {
        let gateways = self.gateways()?.gateways;
        Ok(gateways
            .into_iter()
            .flat_map(|gateway| gateway.addresses)
            .collect())
    }

    /// The only egress IP.
    pub(crate) fn address(&self) -> EgressIp {
        self.addresses().unwrap().remove(0)
    }

    /// The number of the node that owns the only egress IP.
    pub(crate) fn owner(&self) -> u8 {
        let owner = self.address().owner.unwrap();
        owner.trim_start_matches('n').parse().unwrap()
    }

    /// Waits until node `owner` owns the only egress IP and says that it has announced it.
    pub(crate) fn await_owner(&self, owner: u8) {
        let owner = format!("n{owner}");
        eventually(PATIENCE, || {
            let address = self.address();
            let is_there = address.owner.as_ref() == Some(&owner) && is_announced(&address);
            if is_there {
                Ok(())
            } else {
                Err(Box::new(address))
            }
        });
    }

    /// Waits until node `index` may get addresses.
    pub(crate) fn await_eligible(&self, index: u8) {
        let name = format!("n{index}");
        eventually(PATIENCE, || {
            let gateways = self.gateways()?.gateways;
            let mut candidates = gateways.iter().flat_map(|gateway| &gateway.candidates);
            let is_eligible = candidates.any(|it| it.node == name && it.barred.is_none());
            anyhow::ensure!(is_eligible, "{gateways:?}");
            anyhow::Ok(())
        });
    }

    /// Waits until node `index` does not have the client's egress IP any more.
    pub(crate) fn await_released(&self, index: u8) {
        eventually(PATIENCE, || {
            let addresses = self
                .cluster
                .node(index)
                .netns()
                .ip("address show dev ext0")?;
            anyhow::ensure!(!addresses.contains(&EGRESS_IP.to_string()), "{addresses}");
            anyhow::Ok(())
        });
    }

    /// Waits until so many of the egress IPs have an owner.
    pub(crate) fn await_assigned(&self, count: usize) {
        eventually(PATIENCE, || {
            let addresses = self.addresses()?;
            let assigned = addresses.iter().filter(|it| it.owner.is_some()).count();
            anyhow::ensure!(assigned == count, "{addresses:?}");
            anyhow::Ok(())
        });
    }

    pub(crate) fn await_state(&self, index: u8, state: State) {
        eventually(PATIENCE, || {
            let node = self.cluster.node(CONTROLLER);
            let body = node.controller_http(&format!("/v1/nodes/n{index}"))?.body;
            let node: Node = serde_json::from_str(&body)?;
            anyhow::ensure!(node.state == state, "{node:?}");
            anyhow::Ok(())
        });
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // An outage of the controller is one of the reasons to be here.
            eprintln!("{:?}\n{}", self.gateways(), self.controller.log());
        }
    }
}

fn is_announced(address: &EgressIp) -> bool {
    let report = address.report.as_ref();
    address.owner.is_some() && report.is_some_and(|it| it.state == ReportState::Announced)
}

/// As an administrator makes them.
fn make_certificates(cluster: &Cluster) {
    let keygen = |arguments: &[&str]| {
        let mut command = Command::new(bin_dir().unwrap().join("pulsepath-controller"));
        command.args(["keygen", "--dir"]).arg(cluster.files());
        run(command.args(arguments)).unwrap();
    };
    keygen(&["--ca"]);
    keygen(&["--cert", "controller"]);
    for node in cluster.nodes() {
        keygen(&["--cert", "node", &node.name()]);
    }
}

/// Settings of either end of the control channel.
fn control(cluster: &Cluster, name: &str) -> String {
    let mut settings = String::new();
    for (key, file) in [
        ("ca", "ca.crt".to_owned()),
        ("cert", format!("{name}.crt")),
        ("key", format!("{name}-tls.key")),
    ] {
        // Writing to a string cannot fail.
        let _ = writeln!(
            settings,
            "control.{key}_file = {:?}",
            cluster.files().join(file)
        );
    }
    settings
}

fn spawn_agent(cluster: &Cluster, index: u8) -> Process {
    let node = cluster.node(index);
    let config = node.agent_config(&control(cluster, &node.name()));
    node.spawn_agent(&config).unwrap()
}

fn await_agent(cluster: &Cluster, index: u8) {
    eventually(PATIENCE, || {
        let answer = cluster.node(index).agent_http("/ready");
        answer.is_ok_and(|answer| answer.status == 200)
    });
}

fn config(cluster: &Cluster, settings: &str, egress_ips: &str, candidates: &[u8]) -> String {
    let settings = format!("{settings}\n{}", control(cluster, "controller"));
    let is_candidate = |index| match candidates.contains(&index) {
        true => "egress = \"yes\"",
        false => "",
    };
    let nodes = cluster.labelled_controller_config(&settings, is_candidate);
    format!(
        "{nodes}\n[[gateways]]\nname = \"gw\"\nnode_selector = {{ egress = \"yes\" }}\n\
         egress_ips = {egress_ips}\nsources = [\"{CLIENTS}\"]\nmax_per_node = 1\n"
    )
}
