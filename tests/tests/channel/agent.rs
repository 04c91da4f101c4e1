//! A real agent in a namespace, and a controller's pool that pushes to it.

use std::net::{IpAddr, SocketAddr};

use controller::channel::{AgentPool, Order, Outcome};
use probe_user::channel::{KeyPush, Push, Security};
use probe_user::egress::Desired;
use probe_user::keys::{NodeKey, NodeKeys};
use pulsepath_tests::{Cluster, Node, Process, eventually};
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::scene::{Authority, PATIENCE, block_on_in, next};

const HEALTH: &str = "grpc_health.listen = '127.0.0.1:9107'";

struct Scene {
    authority: Authority,
    security: Security,
    agent: Process,
    cluster: Cluster,
}

impl Scene {
    fn new(purpose: &str) -> Self {
        let cluster = Cluster::new(purpose, 1).unwrap();
        let authority = Authority::new();
        let files = authority.node("n1");
        let settings = format!(
            "control.ca_file = {:?}\ncontrol.cert_file = {:?}\ncontrol.key_file = {:?}\n\
             {HEALTH}\n",
            files.ca, files.cert, files.key,
        );
        let node = cluster.node(1);
        let agent = node.spawn_agent(&node.agent_config(&settings)).unwrap();
        eventually(PATIENCE, || {
            node.agent_http("/ready")
                .is_ok_and(|answer| answer.status == 200)
        });
        Self {
            security: authority.controller(),
            authority,
            agent,
            cluster,
        }
    }

    fn node(&self) -> &Node {
        self.cluster.node(1)
    }

    /// What the agent says first to `push`.
    fn ask<O: Order>(&self, push: O) -> Result<O::Report, String> {
        let address = SocketAddr::new(IpAddr::V4(self.node().ipv4()), 9862);
        let ask = async || {
            let (mut pool, mut answers) = AgentPool::new(self.security.clone());
            pool.set_desired("n1", vec![address], push);
            match next(&mut answers).await.outcome {
                Outcome::Done(report) => Ok(report),
                Outcome::Failed(failure) => Err(failure.to_string()),
            }
        };
        block_on_in(self.node(), ask)
    }

    fn health_of(&self, service: &str) -> Option<ServingStatus> {
        let service = service.to_owned();
        let ask = async || {
            let channel = Endpoint::from_static("http://127.0.0.1:9107");
            let mut client = HealthClient::new(channel.connect().await.ok()?);
            let answer = client.check(HealthCheckRequest { service }).await.ok()?;
            Some(answer.into_inner().status())
        };
        block_on_in(self.node(), ask)
    }
}

fn push(epoch: u64) -> Push {
    Push {
        incarnation: None,
        desired: Desired {
            epoch,
            addresses: Vec::new(),
            gateways: Vec::new(),
            lease_ms: 0,
            witnesses: None,
        },
    }
}

fn key(term: u32, id: u16) -> KeyPush {
    let keys = vec![NodeKey::new(id, [0x5a; 16])];
    KeyPush { term, keys }
}

#[test]
fn an_older_epoch_is_refused_and_the_same_one_may_come_again() {
    let scene = Scene::new("q-epoch");
    assert_eq!(scene.ask(push(5)).unwrap().applied_epoch, 5);
    assert_eq!(scene.ask(push(5)).unwrap().applied_epoch, 5);
    let error = scene.ask(push(4)).unwrap_err();
    assert!(
        error.contains("refuses it: epoch 4 is older than 5"),
        "{error}"
    );
}

#[test]
fn a_push_for_another_incarnation_is_refused() {
    let scene = Scene::new("q-incarnation");
    let incarnation = scene.ask(push(1)).unwrap().incarnation;
    let meant_for = |incarnation| {
        scene.ask(Push {
            incarnation: Some(incarnation),
            ..push(2)
        })
    };
    let error = meant_for(incarnation ^ 1).unwrap_err();
    assert!(error.contains("incarnation"), "{error}");
    assert_eq!(meant_for(incarnation).unwrap().applied_epoch, 2);
}

#[test]
fn a_key_reaches_the_kernel_and_the_key_file() {
    let scene = Scene::new("q-key");
    scene.ask(key(0, 9)).unwrap();
    let keys = NodeKeys::read(scene.node().key_file()).unwrap();
    assert_eq!((keys.node(), keys.current().id), ("n1", 9));
    assert_eq!(keys.current().bytes(), [0x5a; 16]);
    assert_eq!(kernel_keys(&scene), [9]);
}

#[test]
fn a_key_of_an_older_term_is_refused() {
    let scene = Scene::new("q-stale-key");
    let before = std::fs::read(scene.node().key_file()).unwrap();
    scene.ask(push(2 << 32)).unwrap();
    let error = scene.ask(key(1, 9)).unwrap_err();
    assert!(error.contains("term 1 is older than 2"), "{error}");
    assert_eq!(std::fs::read(scene.node().key_file()).unwrap(), before);
    assert!(!kernel_keys(&scene).contains(&9));
    scene.ask(key(2, 9)).unwrap();
}

#[test]
fn an_agent_serves_grpc_health_without_certificates() {
    let scene = Scene::new("q-health");
    for service in ["", "Service_Egress_IP"] {
        eventually(PATIENCE, || {
            scene.health_of(service) == Some(ServingStatus::Serving)
        });
    }
    assert_eq!(scene.health_of("Other"), None);
}

#[test]
fn an_agent_without_certificates_has_no_control_channel() {
    let mut scene = Scene::new("q-off");
    scene.agent.kill().unwrap();
    let node = scene.node();
    let agent = node.spawn_agent(&node.agent_config(HEALTH)).unwrap();
    eventually(PATIENCE, || {
        scene.health_of("") == Some(ServingStatus::Serving)
    });
    let error = scene.ask(push(1)).unwrap_err();
    assert!(error.contains("refused"), "{error}\n{}", agent.log());
}

#[test]
fn plaintext_works_only_if_asked_for_and_is_warned_of() {
    let mut scene = Scene::new("q-plain");
    scene.agent.kill().unwrap();
    let node = scene.cluster.node(1);
    let config = node.agent_config("control.plaintext = true");
    scene.agent = node.spawn_agent(&config).unwrap();
    scene.security = Security::Plaintext;
    eventually(PATIENCE, || scene.ask(push(1)));
    let log = scene.agent.log();
    assert!(
        log.contains("WARN") && log.contains("NOT protected"),
        "{log}"
    );
    drop(scene.authority);
}

/// Ids of the keys that the kernel holds.
fn kernel_keys(scene: &Scene) -> Vec<u64> {
    let program = pulsepath_tests::bin_dir().unwrap().join("pulsepath-agent");
    let mut inspect = scene.node().netns().command(program);
    inspect.args(["inspect", "-o", "json", "--pin-dir"]);
    inspect.arg(scene.node().pin_dir());
    let text = pulsepath_tests::run(&mut inspect).unwrap();
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    let keys = report["keys"].as_array().unwrap().iter();
    keys.map(|key| key.as_u64().unwrap()).collect()
}
