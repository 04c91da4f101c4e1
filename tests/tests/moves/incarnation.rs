//! A node that comes back as another: everything in its kernel is gone.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use controller::channel::{AgentPool, Failure, Outcome};
use probe_user::channel::{Credentials, Push, Report, Security, TlsFiles};
use probe_user::egress::Desired;
use pulsepath_tests::egress::{EGRESS_IP, PATIENCE, Scene};
use pulsepath_tests::{bin_dir, eventually, run};

use crate::start_with_one_address;

/// Nothing moves because of the short time without programs.
const PATIENT: &str = "period = '50ms'\ntimeout = '30s'";

#[test]
fn a_node_in_another_incarnation_gets_its_addresses_again_and_takes_no_push_for_the_last_one() {
    let (_alone, mut scene) = start_with_one_address("reborn", PATIENT);
    let owner = scene.owner().unwrap();
    let since = scene.address().unwrap().since;
    let before = incarnation(&scene, owner).unwrap();
    scene.take_agent(owner).unwrap().kill().unwrap();
    detach(&scene, owner);
    assert!(!has_address(&scene, owner));
    scene.spawn_agent(owner).unwrap();
    scene.await_agent(owner).unwrap();
    let now = eventually(PATIENCE, || {
        incarnation(&scene, owner).filter(|now| *now != before)
    });
    eventually(PATIENCE, || {
        applied(&scene, owner).filter(|_| has_address(&scene, owner))
    });
    let address = scene.address().unwrap();
    assert_eq!((scene.owner().unwrap(), address.since), (owner, since));

    let late = tell(&scene, owner, before).unwrap_err();
    assert!(matches!(late, Failure::Stale { .. }), "{late}");
    assert!(has_address(&scene, owner));
    tell(&scene, owner, now).unwrap();
    assert!(!has_address(&scene, owner));
}

fn incarnation(scene: &Scene, index: u8) -> Option<u64> {
    let path = format!("/v1/nodes/n{index}");
    let body = scene.controller_node().controller_http(&path).ok()?.body;
    let node: controller::api::Node = serde_json::from_str(&body).unwrap();
    let digits = node.incarnation?;
    Some(u64::from_str_radix(&digits, 16).unwrap())
}

/// The epoch that is in force on a node, if any.
fn applied(scene: &Scene, index: u8) -> Option<u64> {
    let report: serde_json::Value =
        serde_json::from_str(&agent(scene, index, &["inspect", "-o", "json"])).unwrap();
    report["node"]["applied_epoch"]
        .as_u64()
        .filter(|epoch| *epoch != 0)
}

fn has_address(scene: &Scene, index: u8) -> bool {
    let shown = scene.node(index).netns().ip("address show dev ext0");
    shown.unwrap().contains(&EGRESS_IP.to_string())
}

fn detach(scene: &Scene, index: u8) {
    agent(scene, index, &["detach"]);
}

fn agent(scene: &Scene, index: u8, arguments: &[&str]) -> String {
    let node = scene.node(index);
    let program = bin_dir().unwrap().join("pulsepath-agent");
    let mut command = node.netns().command(program);
    command.args(arguments).arg("--pin-dir").arg(node.pin_dir());
    run(&mut command).unwrap()
}

/// Tells a node, as its controller would, that it shall hold nothing any more.
fn tell(scene: &Scene, index: u8, incarnation: u64) -> Result<Report, Failure> {
    let node = scene.node(index);
    let file = |name: &str| scene.cluster().files().join(name);
    let credentials = Credentials::open(TlsFiles {
        ca: file("ca.crt"),
        cert: file("controller.crt"),
        key: file("controller-tls.key"),
        peer: None,
    });
    let security = Security::Mutual(Arc::new(credentials.unwrap()));
    let address = SocketAddr::new(IpAddr::V4(node.ipv4()), 9862);
    let push = Push {
        incarnation: Some(incarnation),
        desired: Desired {
            epoch: u64::MAX,
            ..Desired::default()
        },
    };
    let ask = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let (mut pool, mut answers) = AgentPool::new(security);
            pool.set_desired(&node.name(), vec![address], push);
            match answers.recv().await.unwrap().outcome {
                Outcome::Done(report) => Ok(report),
                Outcome::Failed(failure) => Err(failure),
            }
        })
    };
    node.netns().enter(ask).unwrap()
}
