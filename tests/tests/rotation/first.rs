//! Nodes begin without a key, and all agents share one certificate, as in Kubernetes.

use std::fs;

use controller::api::State;
use probe_user::keys::{ClusterKeys, NodeKeys};
use pulsepath_tests::egress::{PATIENCE, Scene, Setup};
use pulsepath_tests::{bin_dir, eventually, run};

fn scene(purpose: &str) -> Scene {
    let setup = Setup {
        settings: "fencing = 'strict'\nlease = '10s'".to_owned(),
        shared: true,
        ..Setup::default()
    };
    Scene::new(purpose, setup).unwrap()
}

fn start(purpose: &str) -> Scene {
    let mut scene = scene(purpose);
    for index in scene.indices() {
        scene.spawn_agent(index).unwrap();
    }
    scene.start_controller().unwrap();
    for index in scene.indices() {
        scene.await_agent(index).unwrap();
        scene.await_state(index, State::Available).unwrap();
    }
    scene.await_announced().unwrap();
    scene
}

fn assert_keyed(scene: &Scene, index: u8) {
    let node = scene.node(index);
    let cluster = ClusterKeys::read(scene.cluster().key_file()).unwrap();
    let held = NodeKeys::read(node.key_file()).unwrap();
    assert_eq!(held, cluster.node_keys(&node.name()));
}

#[test]
fn an_agent_without_a_key_says_that_it_waits_for_one() {
    let mut scene = scene("first-wait");
    scene.spawn_agent(1).unwrap();
    eventually(PATIENCE, || {
        let ready = scene.node(1).agent_http("/ready");
        ready.is_ok_and(|it| it.status == 503 && it.body.contains("bring the node's probe key"))
    });
}

#[test]
fn a_controller_brings_keys_to_nodes_that_it_has_never_heard() {
    let scene = start("first");
    for index in scene.indices() {
        assert_keyed(&scene, index);
    }
}

#[test]
fn an_agent_that_was_brought_its_key_restarts_without_a_controller() {
    let mut scene = start("first-kept");
    drop(scene.take_controller().unwrap());
    scene.restart_agent(1).unwrap();
    assert_keyed(&scene, 1);
}

#[test]
fn a_node_that_comes_back_with_nothing_is_brought_its_key_again() {
    let mut scene = start("first-again");
    let node = scene.node(3);
    let mut detach = node
        .netns()
        .command(bin_dir().unwrap().join("pulsepath-agent"));
    detach.arg("detach").arg("--pin-dir").arg(node.pin_dir());
    detach.arg("--state-file").arg(node.agent_state_file());
    detach.arg("--key-file").arg(node.key_file());
    scene.take_agent(3).unwrap().kill().unwrap();
    run(&mut detach).unwrap();
    scene.await_state(3, State::Unreachable).unwrap();
    fs::metadata(scene.node(3).key_file()).unwrap_err();
    scene.spawn_agent(3).unwrap();
    scene.await_agent(3).unwrap();
    scene.await_state(3, State::Available).unwrap();
    assert_keyed(&scene, 3);
}
