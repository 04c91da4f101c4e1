//! The cluster key is replaced while nodes are probed and hold leases; and nodes get their first keys
//! from a controller.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests panic like the tests themselves"
)]

mod figures;
mod first;

use std::path::Path;

use controller::api::{NodeList, State};
use probe_user::keys::{ClusterKeys, NodeKeys};
use pulsepath_tests::egress::{PATIENCE, Scene, Setup};
use pulsepath_tests::{bin_dir, eventually, run};

use crate::figures::Figures;

/// Probes often, and is patient with a busy machine: whatever is lost is lost for want of a key.
const SETTINGS: &str = "period = '20ms'\ntimeout = '2s'\nfencing = 'strict'\nlease = '10s'\n\
                        failover.damping.count = 0";
/// A node that never holds an egress IP.
const BYSTANDER: u8 = 3;

struct Rotation {
    scene: Scene,
    /// Another than the owner of the egress IP.
    second: u8,
    owner: u8,
}

impl Rotation {
    fn start(purpose: &str) -> Self {
        let setup = Setup {
            settings: SETTINGS.to_owned(),
            ..Setup::default()
        };
        let scene = Scene::start(purpose, setup).unwrap();
        let owner = scene.owner().unwrap();
        Self {
            scene,
            owner,
            second: 3 - owner,
        }
    }

    /// `pulsepath-controller keygen`, on the controller's node.
    fn keygen(&self, step: &[&str]) -> Result<String, String> {
        let program = bin_dir().unwrap().join("pulsepath-controller");
        let mut keygen = self.scene.controller_node().netns().command(program);
        keygen.arg("keygen").args(step).arg("--cluster-key");
        keygen.arg(self.scene.cluster().key_file());
        run(&mut keygen).map_err(|error| format!("{error:#}"))
    }

    /// Waits until these nodes have confirmed these keys, and the controller has no others.
    fn await_confirmed(&self, nodes: &[u8], keys: &[u16]) {
        eventually(PATIENCE, || {
            let list = self.nodes();
            let mut nodes = nodes
                .iter()
                .map(|index| &list.nodes[usize::from(*index) - 1]);
            nodes.all(|node| node.keys.confirmed == keys && node.keys.valid == keys)
        });
    }

    fn nodes(&self) -> NodeList {
        let answer = self.scene.controller_node().controller_http("/v1/nodes");
        serde_json::from_str(&answer.unwrap().body).unwrap()
    }

    fn figures(&self) -> Figures {
        Figures::read(&self.scene)
    }

    /// Waits until every node has been probed a good deal more.
    fn probe_on(&self) {
        let before = self.figures().sent;
        eventually(PATIENCE, || self.figures().sent > before + 500);
    }

    fn ping(&self, index: u8, key: &Path) -> Result<String, String> {
        let program = bin_dir().unwrap().join("pulsepath");
        let mut ping = self.scene.cluster().hub().command(program);
        ping.args(["ping", "-c", "3", "-i", "0.1"]);
        ping.arg(self.scene.node(index).ipv4().to_string());
        ping.arg("--key").arg(key);
        run(&mut ping).map_err(|error| format!("{error:#}"))
    }

    /// Ids of the keys in the node's own file.
    fn node_file(&self, index: u8) -> Vec<u16> {
        let keys = NodeKeys::read(self.scene.node(index).key_file()).unwrap();
        keys.all().iter().map(|key| key.id).collect()
    }
}

#[test]
fn a_rotation_loses_no_probe_and_no_lease() {
    let mut rotation = Rotation::start("rotate");
    let (owner, second) = (rotation.owner, rotation.second);
    let before = rotation.figures();
    let old_key = rotation.scene.cluster().files().join("old.key");
    std::fs::copy(rotation.scene.node(owner).key_file(), &old_key).unwrap();

    rotation.scene.cut(second).unwrap();
    rotation.keygen(&["--rotate"]).unwrap();
    rotation.await_confirmed(&[owner, BYSTANDER, 4], &[1, 2]);
    let refused = rotation.keygen(&["--rotate"]).unwrap_err();
    assert!(refused.contains("from key 1 to key 2"), "{refused}");
    let refused = rotation.keygen(&["--finish"]).unwrap_err();
    let missing = format!("node n{second} has not confirmed key 2");
    assert!(refused.contains(&missing), "{refused}");
    rotation.scene.restart_agent(owner).unwrap();
    rotation.probe_on();
    rotation.ping(owner, &old_key).unwrap();

    rotation.scene.heal(second).unwrap();
    rotation.await_confirmed(&[1, 2, 3, 4], &[1, 2]);
    rotation.keygen(&["--finish"]).unwrap();
    rotation.await_confirmed(&[1, 2, 3, 4], &[2]);
    rotation.probe_on();

    let after = rotation.figures();
    println!("before: {before:?}\nafter: {after:?}");
    assert_eq!(after.forged, 0);
    assert_eq!(after.expiries(owner), 0);
    // Agents that were asked about the one that was down may go on for a moment with its old key.
    for index in [owner, BYSTANDER, 4] {
        assert_eq!(after.refused(index), 0, "dropped by n{index}");
        assert_eq!(after.lost(index), before.lost(index), "lost by n{index}");
        assert_eq!(rotation.node_file(index), [2]);
    }
    assert_eq!(rotation.scene.owner().unwrap(), owner);
    rotation
        .ping(owner, &rotation.scene.node(owner).key_file())
        .unwrap();
    rotation.ping(owner, &old_key).unwrap_err();
}

#[test]
fn a_controller_that_is_restarted_in_a_rotation_goes_on_with_it() {
    let mut rotation = Rotation::start("rotate-again");
    rotation.keygen(&["--rotate"]).unwrap();
    rotation.await_confirmed(&[1, 2, 3, 4], &[1, 2]);
    drop(rotation.scene.take_controller().unwrap());
    rotation.scene.start_controller().unwrap();
    rotation.await_confirmed(&[1, 2, 3, 4], &[1, 2]);
    rotation.keygen(&["--finish"]).unwrap();
    rotation.await_confirmed(&[1, 2, 3, 4], &[2]);
    rotation.probe_on();
    let after = rotation.figures();
    assert_eq!(after.forged, 0);
    for index in rotation.scene.indices() {
        assert_eq!(after.refused(index), 0, "dropped by n{index}");
    }
    assert_eq!(after.expiries(rotation.owner), 0);
}

#[test]
fn a_node_that_misses_a_rotation_gets_its_key_when_it_is_back() {
    let rotation = Rotation::start("rotate-late");
    for missing in [rotation.second, BYSTANDER] {
        rotation.scene.cut(missing).unwrap();
        rotation
            .scene
            .await_state(missing, State::Unreachable)
            .unwrap();
    }
    rotation.keygen(&["--rotate"]).unwrap();
    rotation.await_confirmed(&[rotation.owner, 4], &[1, 2]);
    rotation.keygen(&["--finish", "--force"]).unwrap();
    rotation.await_confirmed(&[rotation.owner, 4], &[2]);
    for missing in [rotation.second, BYSTANDER] {
        assert_eq!(rotation.node_file(missing), [1]);
        rotation.scene.heal(missing).unwrap();
    }
    rotation.await_confirmed(&[1, 2, 3, 4], &[2]);
    let cluster = ClusterKeys::read(rotation.scene.cluster().key_file()).unwrap();
    for node in rotation.scene.cluster().nodes() {
        let held = NodeKeys::read(node.key_file()).unwrap();
        assert_eq!(held, cluster.node_keys(&node.name()));
    }
}
