//! What people see of a witness.

use std::os::unix::fs::PermissionsExt;

use probe_user::channel::Watched;
use pulsepath_tests::{bin_dir, eventually, run};
use serde_json::Value;

use crate::scene::{GATEWAY, SOON, Scene};

impl Scene {
    /// What `pulsepath-agent inspect` says on a node.
    fn inspect(&self, index: u8, output: &str) -> String {
        let node = self.node(index);
        let agent = bin_dir().unwrap().join("pulsepath-agent");
        let mut inspect = node.netns().command(agent);
        inspect.args(["inspect", "--output", output, "--pin-dir"]);
        inspect.arg(node.pin_dir()).arg("--state-file");
        run(inspect.arg(node.agent_state_file())).unwrap()
    }

    fn metric(&self, index: u8, name: &str) -> Option<f64> {
        let metrics = self.node(index).agent_http("/metrics").unwrap().body;
        let line = metrics.lines().find(|line| {
            let rest = line.strip_prefix("pulsepath_");
            rest.is_some_and(|rest| rest.split(' ').next() == Some(name))
        });
        line?.rsplit(' ').next()?.parse().ok()
    }
}

#[test]
fn inspect_tells_the_duty_and_the_promises() {
    let scene = Scene::new("inspect", 2);
    let none: Value = serde_json::from_str(&scene.inspect(3, "json")).unwrap();
    assert_eq!(none["witness"]["duty"], Value::Null);
    let other = Watched {
        vote: false,
        ..scene.watched(3, 0)
    };
    let duty = scene.duty(2, 5, vec![scene.watched(GATEWAY, 9), other]);
    let instance = scene.tell(2, duty).instance;
    let text = scene.inspect(2, "text");
    for part in [
        &*format!("instance {instance:016x}, duty 5: probes every 100 ms at port 862"),
        "n1               votes as of epoch 9, at 10.77.0.1, fd77::1",
        "n3               only listens to it",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    scene.tell(2, scene.duty(2, 6, Vec::new()));
    let text = scene.inspect(2, "text");
    assert!(
        text.contains("(1 promises about other nodes are kept)"),
        "{text}"
    );
}

#[test]
fn metrics_count_what_a_witness_does() {
    let scene = Scene::new("metrics", 1);
    assert_eq!(scene.metric(2, "witness_nodes"), Some(0.0));
    scene.watch(2, 1, 0);
    eventually(SOON, || {
        let votes = scene.metric(2, "witness_votes_total");
        let heard = scene.metric(2, "witness_nodes_heard");
        votes.is_some_and(|votes| votes > 3.0) && heard == Some(1.0)
    });
    assert_eq!(scene.metric(2, "witness_nodes_voted_for"), Some(1.0));
}

#[test]
fn nobody_else_may_read_the_recorded_duty() {
    let scene = Scene::new("mode", 1);
    scene.watch(2, 1, 0);
    let mut file = scene.node(2).agent_state_file().into_os_string();
    file.push(".witness");
    let mode = std::fs::metadata(file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
