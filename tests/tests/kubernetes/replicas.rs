//! Two replicas of the controller at a real API server, agents on every node: who decides, what becomes
//! of that, and what objects say of it.

#![expect(clippy::unwrap_used, reason = "a test panics to fail")]

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use controller::api::{NodeList, State};
use pulsepath_tests::egress::{EGRESS_IP, Scene, Setup};
use pulsepath_tests::kubernetes::{ControlPlane, Keeper, PATIENCE};
use pulsepath_tests::{LinkState, Process, bin_dir, eventually, run};

/// The nodes with a replica; neither is a candidate.
const REPLICAS: [u8; 2] = [3, 4];

/// What a busy machine needs to renew a Lease in time.
const SETTINGS: &str = r#"
kubernetes.enabled = true
kubernetes.namespace = "default"
kubernetes.lease = { duration = "15s", renew = "1s" }
"#;

struct Cluster {
    // Who uses another comes first: they are dropped in this order.
    replicas: BTreeMap<u8, Process>,
    plane: ControlPlane,
    scene: Scene,
}

impl Cluster {
    /// Agents, objects and replicas, and somebody owns the egress IP.
    fn start(purpose: &str) -> Self {
        let mut scene = Scene::new(purpose, Setup::default()).unwrap();
        scene.start_agents().unwrap();
        let keeper = Arc::new(Keeper::default());
        let plane = ControlPlane::start(scene.cluster(), &keeper).unwrap();
        let mut cluster = Self {
            replicas: BTreeMap::new(),
            plane,
            scene,
        };
        cluster.make_objects();
        for index in REPLICAS {
            cluster.start_replica(index);
        }
        eventually(PATIENCE, || cluster.owner());
        cluster
    }

    fn make_objects(&self) {
        let mut crds = self
            .plane
            .command(bin_dir().unwrap().join("pulsepath-controller"));
        self.plane.apply(&run(crds.arg("crds")).unwrap()).unwrap();
        for node in self.scene.cluster().nodes() {
            let egress = self.scene.setup().candidates.contains(&node.index());
            let (name, address) = (node.name(), node.ipv4());
            let object = format!(
                "apiVersion: v1\nkind: Node\nmetadata:\n  name: {name}\n  labels: {{egress: \
                 \"{egress}\"}}\n"
            );
            self.plane.apply(&object).unwrap();
            let status = format!(
                r#"{{"status":{{"addresses":[{{"type":"InternalIP","address":"{address}"}}]}}}}"#
            );
            let patch = [
                "patch",
                "node",
                &name,
                "--subresource=status",
                "-p",
                &status,
            ];
            self.plane.kubectl(&patch).unwrap();
        }
        let known = [
            "wait",
            "--for=condition=Established",
            "crd/egressgateways.pulsepath.dev",
        ];
        self.plane.kubectl(&known).unwrap();
        let gateway = format!(
            "apiVersion: pulsepath.dev/v1alpha1\nkind: EgressGateway\nmetadata:\n  name: gw\nspec:\n  \
             nodeSelector: {{selector: {{matchLabels: {{egress: \"true\"}}}}}}\n  ippools: {{ipv4: \
             [{EGRESS_IP}]}}\n  sources: {:?}\n",
            self.scene.setup().sources
        );
        self.plane.apply(&gateway).unwrap();
    }

    fn start_replica(&mut self, index: u8) {
        let node = self.scene.node(index);
        let config = node.config_file("pulsepath-controller");
        let identity = format!("kubernetes.identity = {:?}\n", node.name());
        let settings = self.scene.controller_settings() + &identity + SETTINGS;
        fs::write(&config, settings).unwrap();
        let program = bin_dir().unwrap().join("pulsepath-controller");
        let mut command = node.netns().command(program);
        command.env("KUBECONFIG", self.plane.kubeconfig());
        command.args(["run", "--config"]).arg(&config);
        let log = config.with_extension("log");
        let label = format!("{}-controller", node.name());
        let replica = Process::spawn(&label, &command, &log).unwrap();
        self.replicas.insert(index, replica);
    }

    fn get(&self, object: &str, path: &str) -> anyhow::Result<String> {
        self.plane
            .kubectl(&["get", object, "-o", &format!("jsonpath={{{path}}}")])
    }

    /// Who owns the egress IP, as its gateway's status says.
    fn owner(&self) -> Option<u8> {
        let owners = self.get("egressgateway/gw", ".status.owners").unwrap();
        owners.strip_prefix('n')?.parse().ok()
    }

    /// What a replica knows.
    fn view(&self, index: u8) -> anyhow::Result<NodeList> {
        let response = self.scene.node(index).controller_http("/v1/nodes")?;
        Ok(serde_json::from_str(&response.body)?)
    }

    fn leads(&self, index: u8) -> bool {
        self.view(index).is_ok_and(|view| view.controller.leads)
    }

    fn leader(&self) -> Option<u8> {
        REPLICAS.into_iter().find(|index| self.leads(*index))
    }

    /// Waits until the replicas that run find node `index` to be so.
    fn await_state(&self, index: u8, state: State) {
        let name = self.scene.node(index).name();
        let is_so = |replica: &u8| {
            let nodes = self.view(*replica).map_or(Vec::new(), |view| view.nodes);
            nodes
                .iter()
                .any(|node| node.name == name && node.state == state)
        };
        eventually(PATIENCE, || self.replicas.keys().all(is_so));
    }

    fn other(owner: u8) -> u8 {
        3 - owner
    }
}

#[test]
fn a_move_is_made_once_whoever_leads_before_and_after() {
    let mut cluster = Cluster::start("replicas");
    let owner = cluster.owner().unwrap();
    let next = Cluster::other(owner);
    cluster.scene.set_links(owner, LinkState::Down).unwrap();
    eventually(PATIENCE, || cluster.owner() == Some(next));
    let health = format!("nodehealth/n{owner}");
    eventually(PATIENCE, || {
        cluster.get(&health, ".status.state").unwrap() == "UNREACHABLE"
    });

    let leader = eventually(PATIENCE, || cluster.leader());
    cluster.replicas.remove(&leader).unwrap().kill().unwrap();
    let successor = REPLICAS.into_iter().find(|it| *it != leader).unwrap();
    eventually(PATIENCE, || cluster.leads(successor));
    cluster.scene.set_links(owner, LinkState::Up).unwrap();
    cluster.await_state(owner, State::Available);
    eventually(PATIENCE, || {
        cluster.get(&health, ".status.state").unwrap() == "AVAILABLE"
    });
    assert_eq!(cluster.owner(), Some(next));
    assert!(cluster.scene.holds(next, &EGRESS_IP.to_string()).unwrap());
}

#[test]
fn nothing_moves_without_an_api_server_before_it_is_back() {
    let mut cluster = Cluster::start("noapi");
    let owner = cluster.owner().unwrap();
    let next = Cluster::other(owner);
    eventually(PATIENCE, || cluster.leader());
    cluster.plane.kill_api_server().unwrap();
    eventually(PATIENCE, || cluster.leader().is_none());
    cluster.scene.set_links(owner, LinkState::Down).unwrap();
    cluster.await_state(owner, State::Unreachable);
    let address = EGRESS_IP.to_string();
    assert!(!cluster.scene.holds(next, &address).unwrap());
    cluster.plane.start_api_server().unwrap();
    eventually(PATIENCE, || cluster.owner() == Some(next));
    eventually(PATIENCE, || cluster.scene.holds(next, &address));
}
