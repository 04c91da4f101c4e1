//! A real controller, real agents with certificates, and those who ask: programs over gRPC, people
//! with `pulsepath`.

use std::process::Output;

use controller::grpc::proto::node_health_client::NodeHealthClient;
use controller::grpc::proto::services_client::ServicesClient;
use controller::grpc::proto::{ListServicesRequest, WatchRequest};
use probe_user::channel::{Identity, TlsFiles};
use pulsepath_tests::{Cluster, LinkState, Process, bin_dir, eventually};
use tonic::transport::{Channel, Endpoint};

use crate::scene::{Authority, PATIENCE, block_on_in};

const CONTROLLER: &str = "period = '50ms'\ntimeout = '500ms'\n";
const AFTER_THE_NODES: &str = "\
    [[gateways]]\nname = 'web'\nnode_selector = {}\negress_ips = ['10.77.0.100']\n\
    [[services]]\nname = 'dns'\n";

/// A controller on n1 and agents on all three nodes.
struct Scene {
    controller: Process,
    _agents: Vec<Process>,
    _authority: Authority,
    cluster: Cluster,
}

impl Scene {
    fn new(purpose: &str) -> Self {
        let cluster = Cluster::new(purpose, 3).unwrap();
        let authority = Authority::new();
        let start = |index| {
            let node = cluster.node(index);
            let settings = control(&authority.node(&node.name()));
            node.spawn_agent(&node.agent_config(&settings)).unwrap()
        };
        let agents = [1, 2, 3].map(start).into();
        let files = authority.certify(&Identity::Controller);
        let settings = format!("{CONTROLLER}{}", control(&files));
        let config = cluster.controller_config(&settings) + AFTER_THE_NODES;
        let controller = cluster.node(1).spawn_controller(&config).unwrap();
        let scene = Self {
            controller,
            _agents: agents,
            _authority: authority,
            cluster,
        };
        eventually(PATIENCE, || {
            let (status, _) = scene.pulsepath(&["status"]);
            let ready = status.matches(" AVAILABLE ").count() == 3 && status.contains("ANNOUNCED");
            ready.then_some(()).ok_or(status + &scene.controller.log())
        });
        scene
    }

    /// Runs `pulsepath` on the controller's node: what it prints, and its exit status.
    fn pulsepath(&self, arguments: &[&str]) -> (String, i32) {
        let program = bin_dir().unwrap().join("pulsepath");
        let mut command = self.cluster.node(1).netns().command(program);
        let output: Output = command.args(arguments).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (
            String::from_utf8(said).unwrap(),
            output.status.code().unwrap(),
        )
    }

    /// Who owns the egress IP, as `pulsepath status` shows it.
    fn owner(&self) -> Option<String> {
        let (status, _) = self.pulsepath(&["status"]);
        let line = status.lines().find(|line| line.starts_with("web "))?;
        let owner = line.split_whitespace().nth(2)?;
        (owner != "-").then(|| owner.to_owned())
    }

    /// Does something over gRPC on the controller's node.
    fn grpc<T: Send>(&self, ask: impl AsyncFnOnce(Channel) -> T + Send) -> T {
        let connect = Endpoint::from_static("http://127.0.0.1:9864");
        block_on_in(self.cluster.node(1), async move || {
            ask(connect.connect().await.unwrap()).await
        })
    }

    fn picked(&self) -> Option<String> {
        self.grpc(async |channel| {
            let mut client = ServicesClient::new(channel);
            let list = client.list(ListServicesRequest {}).await.unwrap();
            let services = list.into_inner().services;
            services
                .into_iter()
                .find(|service| service.name == "dns")?
                .node
        })
    }
}

fn control(files: &TlsFiles) -> String {
    let TlsFiles { ca, cert, key, .. } = files;
    format!("control.ca_file = {ca:?}\ncontrol.cert_file = {cert:?}\ncontrol.key_file = {key:?}\n")
}

fn index_of(node: &str) -> u8 {
    node[1..].parse().unwrap()
}

#[test]
fn people_drain_a_node_and_are_told_why_an_address_is_where_it_is() {
    let scene = Scene::new("q-cli");
    let first = scene.owner().unwrap();
    let (said, code) = scene.pulsepath(&["drain", &first]);
    assert!(code == 0 && said.contains(&first), "{said}");
    eventually(PATIENCE, || scene.owner().filter(|owner| *owner != first));
    let (status, _) = scene.pulsepath(&["status"]);
    assert!(status.contains(&format!("{first} is drained")), "{status}");
    let (why, _) = scene.pulsepath(&["explain", "10.77.0.100"]);
    assert!(why.contains(&scene.owner().unwrap()), "{why}");
    let (why, _) = scene.pulsepath(&["explain", &first]);
    assert!(why.contains("drain"), "{why}");
    let (said, code) = scene.pulsepath(&["undrain", &first]);
    assert!(code == 0 && said.contains("not drained"), "{said}");
    let (said, code) = scene.pulsepath(&["drain", "n9"]);
    assert!(code == 1 && said.contains("n9"), "{said}");
}

#[test]
fn programs_are_told_of_a_cut_node_and_a_service_moves_away_from_it() {
    let scene = Scene::new("q-service");
    // The controller's own link stays: it would take all nodes for cut.
    let picked = eventually(PATIENCE, || scene.picked());
    let cut = if picked == "n1" {
        "n2".to_owned()
    } else {
        picked.clone()
    };
    let cluster = &scene.cluster;
    let told = scene.grpc(async |channel| {
        let nodes = vec![cut.clone()];
        let mut client = NodeHealthClient::new(channel);
        let stream = client.watch(WatchRequest { nodes }).await.unwrap();
        let mut stream = stream.into_inner();
        let first = stream.message().await.unwrap().unwrap();
        // From inside a namespace `ip` would be the node's own: the hub's is asked for by name.
        cluster.set_link(index_of(&cut), LinkState::Down).unwrap();
        let second = stream.message().await.unwrap().unwrap();
        (first, second)
    });
    assert_eq!(
        (&told.0.nodes, &told.1.nodes),
        (&vec![cut.clone()], &vec![cut.clone()])
    );
    assert!(told.1.version > told.0.version);
    if cut == picked {
        eventually(PATIENCE, || scene.picked().filter(|node| *node != cut));
    } else {
        assert_eq!(scene.picked(), Some(picked));
    }
}
