//! What a witness keeps, and what becomes of one that cannot.

use probe_user::kernel::version_directory;
use pulsepath_tests::{bin_dir, eventually, run};
use tonic::Code;

use crate::scene::{GATEWAY, SOON, Scene};

const FLOOR: u64 = 9;

#[test]
fn floors_outlive_the_agent_and_it_says_when_it_started() {
    let mut scene = Scene::new("floors", 1);
    let told = scene.watch(2, 1, FLOOR);
    assert_eq!(told.heard[0].voted_ago, None, "it has never voted");
    scene.kill(2);
    scene.start(2);
    let heard = scene.heard(2).expect("it goes on by itself");
    assert_eq!(heard.floor, FLOOR);
    assert!(heard.voted_ago.is_some_and(|ago| ago < SOON), "{heard:?}");
    assert_eq!(scene.instance(2), told.instance);
}

#[test]
fn a_node_that_has_lost_its_floors_is_another_witness() {
    let mut scene = Scene::new("lost", 1);
    let told = scene.watch(2, 1, FLOOR);
    let duty = scene.duty(2, 2, vec![scene.watched(GATEWAY, FLOOR)]);
    scene.kill(2);
    let node = scene.node(2);
    let agent = bin_dir().unwrap().join("pulsepath-agent");
    let mut detach = node.netns().command(agent);
    detach.args(["detach", "--pin-dir"]).arg(node.pin_dir());
    // The file stays, as on a node that was rebooted.
    run(detach.arg("--state-file").arg("/nonexistent/record")).unwrap();
    scene.start(2);

    assert_ne!(scene.instance(2), told.instance);
    assert!(
        scene.heard(2).is_none(),
        "nobody has told this one anything"
    );
    let status = scene.try_tell(2, duty).unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    let told = scene.watch(2, 2, FLOOR);
    assert_eq!(told.heard[0].voted_ago, None, "this one has never voted");
    eventually(SOON, || {
        let heard = scene.heard(2);
        heard.is_some_and(|heard| heard.heard_ago.is_some())
    });
}

#[test]
fn an_upgrade_to_another_layout_is_no_loss() {
    let mut scene = Scene::new("layout", 1);
    let told = scene.watch(2, 1, FLOOR);
    scene.kill(2);
    let pins = version_directory(scene.node(2).pin_dir());
    std::fs::rename(&pins, pins.with_file_name("v0")).unwrap();
    scene.start(2);
    assert_eq!(scene.instance(2), told.instance);
    assert_eq!(scene.heard(2).unwrap().floor, FLOOR);
}
