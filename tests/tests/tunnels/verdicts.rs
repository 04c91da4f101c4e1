//! What a controller makes of what nodes have counted.

use std::time::{Duration, Instant};

use pulsepath_tests::overlay::destination;
use pulsepath_tests::{Direction, Process, Repeatedly, bin_dir, eventually, run};
use serde_json::Value;

use crate::scene::{SOON, Scene};

const VXLAN: u16 = 4789;

/// Three nodes that count tunnels, and a controller on n3.
struct Watched {
    scene: Scene,
    daemons: Vec<Process>,
}

impl Watched {
    fn new(purpose: &str) -> Self {
        let scene = Scene::new(purpose, 3);
        let settings = "control.plaintext = true";
        let mut daemons: Vec<_> = (1..=3).map(|index| scene.start(index, settings)).collect();
        daemons.push(scene.start_controller(3, settings));
        Self { scene, daemons }
    }

    fn matrix(&self) -> anyhow::Result<Value> {
        let response = self.scene.node(3).controller_http("/v1/tunnels")?;
        Ok(serde_json::from_str(&response.body)?)
    }

    /// What `node` sees of `peer`.
    fn verdict(&self, node: &str, peer: &str) -> Option<String> {
        let matrix = self.matrix().ok()?;
        let mut pairs = matrix["pairs"].as_array()?.iter();
        let pair = pairs.find(|pair| pair["node"] == node && pair["peer"] == peer)?;
        Some(pair["verdict"].as_str()?.to_owned())
    }

    /// Waits until both nodes see this of each other, and returns how long that took.
    fn wait_for(&self, [one, other]: [&str; 2], expected: [&str; 2]) -> Duration {
        let begun = Instant::now();
        eventually(SOON, || {
            let seen = [self.verdict(one, other), self.verdict(other, one)];
            let as_expected = seen.each_ref().map(Option::as_deref) == expected.map(Some);
            as_expected.then_some(()).ok_or(seen)
        });
        begun.elapsed()
    }

    fn cli(&self, arguments: &[&str]) -> String {
        let program = bin_dir().unwrap().join("pulsepath");
        run(self.scene.node(3).netns().command(program).args(arguments)).unwrap()
    }
}

/// Packets from each node to each other one, until dropped.
fn talk(scene: &Scene) -> Repeatedly {
    let sockets: Vec<_> = (1..=3)
        .map(|index| (index, scene.socket(index).unwrap()))
        .collect();
    Repeatedly::start(Duration::from_millis(20), move || {
        for (from, socket) in &sockets {
            for to in (1..=3).filter(|to| to != from) {
                socket.send_to(&[7; 100], destination(to)).unwrap();
            }
        }
    })
}

#[test]
fn a_direction_that_is_lost_is_seen_from_both_sides_while_probes_say_nothing() {
    let watched = Watched::new("verdict");
    let _talk = talk(&watched.scene);
    for pair in [["n1", "n2"], ["n1", "n3"], ["n2", "n3"]] {
        watched.wait_for(pair, ["both_ways"; 2]);
    }
    watched.scene.wait_until_available(3, "n1");
    let cluster = watched.scene.cluster();
    cluster.drop_udp(1, Direction::FromNode, VXLAN).unwrap();
    let took = watched.wait_for(["n1", "n2"], ["received_only", "sent_only"]);
    println!("seen {took:?} after the cut");
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_eq!(watched.verdict("n2", "n3").as_deref(), Some("both_ways"));

    watched.scene.wait_until_available(3, "n1");
    let explained = watched.cli(&["explain", "n2"]);
    let sentence = "n2 sends vxlan packets to n1, but receives none from it";
    assert!(explained.contains(sentence), "{explained}");
    let table = watched.cli(&["tunnels"]);
    println!(
        "{table}\n{explained}\n{}",
        watched.scene.inspect_tunnels(2, &[])
    );
    assert!(table.contains("n2   -->"), "{table}");
    assert!(watched.cli(&["tunnels", "-o", "svg"]).starts_with("<svg"));
    serde_json::from_str::<Value>(&watched.cli(&["tunnels", "-o", "json"])).unwrap();

    cluster.pass_packets(1).unwrap();
    watched.wait_for(["n1", "n2"], ["both_ways"; 2]);
}

fn wait_for_names(scene: &Scene) {
    let series =
        "pulsepath_tunnel_packets_total{peer=\"n2\",encap=\"vxlan\",direction=\"received\"}";
    eventually(SOON, || {
        let metrics = scene.node(1).agent_http("/metrics").unwrap().body;
        metrics.contains(series).then_some(()).ok_or(metrics)
    });
}

#[test]
fn nodes_call_each_other_by_the_names_that_the_controller_has_told_them_once() {
    let watched = Watched::new("names");
    let _talk = talk(&watched.scene);
    eventually(SOON, || watched.matrix());
    wait_for_names(&watched.scene);
    let Watched { scene, daemons } = watched;
    drop(daemons);
    // There is no controller any more.
    let _agent = scene.start(1, "control.plaintext = true");
    wait_for_names(&scene);
}

#[test]
fn what_the_controller_was_told_last_is_in_its_metrics() {
    let watched = Watched::new("metrics");
    let _talk = talk(&watched.scene);
    watched.wait_for(["n1", "n2"], ["both_ways"; 2]);
    let cluster = watched.scene.cluster();
    cluster.drop_udp(1, Direction::FromNode, VXLAN).unwrap();
    watched.wait_for(["n1", "n2"], ["received_only", "sent_only"]);
    let metrics = watched.scene.node(3).controller_http("/metrics").unwrap();
    for series in [
        "pulsepath_tunnel_one_way{node=\"n2\",peer=\"n1\",verdict=\"sent_only\"} 1",
        "pulsepath_tunnel_pairs{verdict=\"both_ways\"} ",
        "pulsepath_tunnels_asked_seconds ",
    ] {
        assert!(metrics.body.contains(series), "{}", metrics.body);
    }
}

#[test]
fn a_node_that_does_not_count_or_does_not_answer_is_named() {
    let watched = Watched::new("mute");
    let _talk = talk(&watched.scene);
    watched.wait_for(["n1", "n2"], ["both_ways"; 2]);
    let mut daemons = watched.daemons;
    daemons[1].kill().unwrap();
    let watched = Watched {
        scene: watched.scene,
        daemons,
    };
    eventually(SOON, || {
        let matrix = watched.matrix().unwrap();
        let problems: Vec<_> = matrix["nodes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["problem"].is_null())
            .collect();
        (problems == [true, false, true])
            .then_some(())
            .ok_or(matrix)
    });
    // Its kernel goes on counting, and n1 knows what it has counted itself.
    assert_eq!(watched.verdict("n1", "n2").as_deref(), Some("both_ways"));
    assert_eq!(watched.verdict("n2", "n1"), None);
}
