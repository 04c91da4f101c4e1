//! `pulsepath ping`.

use std::time::Duration;

use probe_user::keys::{NodeKey, NodeKeys};
use pulsepath_tests::{Cluster, LinkState, Process, Signal, bin_dir, eventually};
use serde_json::Value;

use crate::scene::{PATIENCE, pulsepath, start_agent, stderr, stdout};

struct Scene {
    agent: Process,
    cluster: Cluster,
}

impl Scene {
    fn new(purpose: &str, settings: &str) -> Self {
        let cluster = Cluster::new(purpose, 1).unwrap();
        let agent = start_agent(&cluster, 1, settings);
        Self { agent, cluster }
    }

    fn key(&self) -> String {
        self.cluster.node(1).key_file().display().to_string()
    }

    fn cluster_key(&self) -> String {
        self.cluster
            .files()
            .join("cluster.key")
            .display()
            .to_string()
    }

    /// Pings node 1 from the hub, to the end.
    fn ping(&self, arguments: &[&str]) -> std::process::Output {
        let key = self.key();
        let fixed = ["ping", "10.77.0.1", "--key", &key, "-W", "300ms"];
        pulsepath(self.cluster.hub(), &[&fixed, arguments].concat())
    }

    /// Pings node 1 from the hub, until it is stopped.
    fn start_ping(&self, arguments: &[&str]) -> Process {
        let mut command = self
            .cluster
            .hub()
            .command(bin_dir().unwrap().join("pulsepath"));
        command
            .args(["ping", "10.77.0.1", "--key", &self.key()])
            .args(arguments);
        Process::spawn("ping", &command, &self.cluster.files().join("ping.log")).unwrap()
    }
}

#[test]
fn of_two_keys_the_one_that_the_node_holds_is_found() {
    let scene = Scene::new("p-keys", "");
    let held = NodeKeys::read(scene.key()).unwrap().current().clone();
    let keys = NodeKeys::new("n1", vec![NodeKey::new(held.id + 1, [7; 16]), held]).unwrap();
    let file = scene.cluster.files().join("both.key");
    keys.write_new(&file).unwrap();
    let file = file.display().to_string();
    let fixed = [
        "ping",
        "10.77.0.1",
        "--key",
        &file,
        "-W",
        "300ms",
        "-i",
        "1s",
        "-c",
        "3",
    ];
    let text = stdout(&pulsepath(scene.cluster.hub(), &fixed));
    assert!(text.contains("3 sent, 2 received"), "{text}");
}

#[test]
fn a_live_node_is_available_over_both_protocols() {
    let scene = Scene::new("p-live", "");
    for address in ["10.77.0.1", "fd77::1"] {
        let arguments = [
            "ping",
            address,
            "--key",
            &scene.key(),
            "-c",
            "3",
            "-i",
            "50ms",
        ];
        let output = pulsepath(scene.cluster.hub(), &arguments);
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert_eq!(
            text.matches("AVAILABLE (agent up, beat ").count(),
            3,
            "{text}"
        );
        assert_eq!(text.matches("UNAVAILABLE").count(), 0, "{text}");
        assert!(text.contains("3 sent, 3 received, 0% loss"), "{text}");
        assert!(text.contains("rtt min/avg/max/mdev = "), "{text}");
        assert!(text.contains("node=<1 µs"), "{text}");
    }
}

#[test]
fn the_cluster_key_and_a_name_do_as_well_as_the_nodes_own_key() {
    let scene = Scene::new("p-derive", "");
    let (key, hub) = (scene.cluster_key(), scene.cluster.hub());
    let arguments = [
        "ping",
        "10.77.0.1",
        "--node",
        "n1",
        "--cluster-key",
        &key,
        "-c",
        "1",
    ];
    assert_eq!(pulsepath(hub, &arguments).status.code(), Some(0));
}

#[test]
fn with_its_agent_killed_a_node_is_unavailable() {
    let mut scene = Scene::new("p-kill", "");
    scene.agent.kill().unwrap();
    eventually(PATIENCE, || {
        let output = scene.ping(&["-c", "1"]);
        assert_eq!(
            output.status.code(),
            Some(0),
            "the kernel answers all the same"
        );
        stdout(&output).contains("UNAVAILABLE (agent silent, beat ")
    });
}

#[test]
fn a_stopped_agent_is_shown_as_draining() {
    let mut scene = Scene::new("p-drain", "");
    scene.agent.terminate().unwrap();
    let text = stdout(&scene.ping(&["-c", "1"]));
    assert!(text.contains("draining"), "{text}");
}

#[test]
fn a_cut_link_shows_as_loss_and_does_not_end_the_ping() {
    let scene = Scene::new("p-cut", "");
    let mut ping = scene.start_ping(&["-i", "20ms", "-W", "100ms"]);
    eventually(PATIENCE, || ping.log().matches("AVAILABLE").count() >= 3);
    scene.cluster.set_link(1, LinkState::Down).unwrap();
    eventually(PATIENCE, || {
        ping.log().matches("no reply from 10.77.0.1").count() >= 3
    });
    scene.cluster.set_link(1, LinkState::Up).unwrap();
    let before = ping.log().matches("AVAILABLE").count();
    eventually(PATIENCE, || {
        ping.log().matches("AVAILABLE").count() >= before + 3
    });
    ping.signal(Signal::SIGINT).unwrap();
    assert_eq!(ping.wait(PATIENCE).unwrap().code(), Some(0));
    let log = ping.log();
    let summary = log.lines().find(|line| line.contains("% loss")).unwrap();
    assert!(
        !summary.contains(", 0% loss") && !summary.contains(", 100% loss"),
        "{summary}"
    );
}

#[test]
fn no_reply_at_all_is_exit_status_1() {
    let scene = Scene::new("p-none", "");
    scene.cluster.set_link(1, LinkState::Down).unwrap();
    let output = scene.ping(&["-c", "3", "-i", "50ms"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stdout(&output).contains("3 sent, 0 received, 100% loss"),
        "{}",
        stdout(&output)
    );
}

#[test]
fn a_wrong_node_name_gets_no_answer_and_a_hint() {
    let scene = Scene::new("p-wrong", "");
    let (key, hub) = (scene.cluster_key(), scene.cluster.hub());
    let arguments = [
        "ping",
        "10.77.0.1",
        "--node",
        "n2",
        "--cluster-key",
        &key,
        "-c",
        "1",
        "-W",
        "200ms",
    ];
    let output = pulsepath(hub, &arguments);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("name or key"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn wrong_usage_is_exit_status_2() {
    let cluster = Cluster::new("p-usage", 1).unwrap();
    let exposed = cluster.files().join("exposed.key");
    std::fs::copy(cluster.node(1).key_file(), &exposed).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(&exposed, mode).unwrap();
    let exposed = exposed.display().to_string();
    let cases: [(&[&str], &str); 5] = [
        (&["ping", "10.77.0.1"], "--key"),
        (&["ping", "10.77.0.1", "--node", "n1"], "--cluster-key"),
        (&["ping", "10.77.0.1", "--key", &exposed], "chmod 600"),
        (
            &["ping", "10.77.0.1", "--key", "/nonexistent"],
            "/nonexistent",
        ),
        (&["ping", "10.77.0.1", "--plain", "-i", "0"], "1ms to 1h"),
    ];
    for (arguments, hint) in cases {
        let output = pulsepath(cluster.hub(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(
            stderr(&output).contains(hint),
            "{arguments:?}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn json_is_one_object_for_each_reply_and_a_summary() {
    let scene = Scene::new("p-json", "");
    let output = scene.ping(&["-c", "3", "-i", "20ms", "-o", "json"]);
    let text = stdout(&output);
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let [replies @ .., summary] = &lines[..] else {
        panic!("no line")
    };
    let numbers: Vec<&Value> = replies.iter().map(|reply| &reply["seq"]).collect();
    assert_eq!(numbers, [1, 2, 3]);
    for reply in replies {
        assert_eq!(reply["type"], "reply");
        assert_eq!(
            (&reply["state"], &reply["agent"]["up"]),
            (&"AVAILABLE".into(), &true.into())
        );
        assert_eq!(
            reply["node_ms"],
            Value::Null,
            "the kernel reads its clock once"
        );
        assert!(reply["rtt_ms"].as_f64().unwrap() > 0.0);
    }
    assert_eq!(
        (&summary["type"], &summary["received"]),
        (&"summary".into(), &3.into())
    );
}

#[test]
fn plain_stamp_is_answered_where_the_node_allows_it() {
    let allowed = "stamp.enabled = true\nstamp.sources = ['10.77.0.0/24']\n";
    for (settings, code) in [(allowed, 0), ("", 1)] {
        let scene = Scene::new("p-plain", settings);
        let arguments = [
            "ping",
            "10.77.0.1",
            "--plain",
            "-c",
            "3",
            "-i",
            "20ms",
            "-W",
            "200ms",
        ];
        let output = pulsepath(scene.cluster.hub(), &arguments);
        assert_eq!(output.status.code(), Some(code), "{}", stdout(&output));
    }
}

#[test]
fn a_new_incarnation_is_noticed() {
    let mut scene = Scene::new("p-incarnation", "");
    let ping = scene.start_ping(&["-i", "20ms", "-W", "100ms"]);
    eventually(PATIENCE, || ping.log().contains("AVAILABLE"));
    scene.agent.terminate().unwrap();
    let pin_dir = scene.cluster.node(1).pin_dir().display().to_string();
    let program = bin_dir().unwrap().join("pulsepath-agent");
    let mut detach = scene.cluster.node(1).netns().command(program);
    pulsepath_tests::run(detach.args(["detach", "--pin-dir", &pin_dir])).unwrap();
    scene.agent = start_agent(&scene.cluster, 1, "");
    eventually(PATIENCE, || ping.log().contains("n1 has a new incarnation"));
}

#[test]
fn a_probe_that_this_host_refuses_is_said_to_be_refused() {
    let scene = Scene::new("p-refuse", "");
    scene
        .cluster
        .hub()
        .ip("route add prohibit 10.77.0.1/32")
        .unwrap();
    let output = scene.ping(&["-c", "2", "-i", "20ms"]);
    assert!(
        stderr(&output).contains("refused to send"),
        "{}",
        stderr(&output)
    );
    assert!(
        stdout(&output).contains("2 refused by this host"),
        "{}",
        stdout(&output)
    );
    assert_eq!(output.status.code(), Some(1));
}

/// Ends well before the timeout of a probe if it does not wait for one that cannot be answered.
#[test]
fn a_finished_ping_does_not_wait() {
    let scene = Scene::new("p-finish", "");
    let started = std::time::Instant::now();
    scene.ping(&["-c", "1", "-W", "1h"]);
    assert!(started.elapsed() < Duration::from_secs(60));
}
