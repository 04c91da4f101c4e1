//! `pulsepath status` and `pulsepath watch`.

use controller::api::{NodeList, State, Transition};
use pulsepath_tests::{Cluster, Process, bin_dir, eventually};

use crate::scene::{PATIENCE, pulsepath, start_agent, stderr, stdout};

struct Scene {
    agents: Vec<Process>,
    controller: Process,
    cluster: Cluster,
}

impl Scene {
    fn new(purpose: &str) -> Self {
        let cluster = Cluster::new(purpose, 2).unwrap();
        let agents = [1, 2].map(|index| start_agent(&cluster, index, "")).into();
        let controller = start_controller(&cluster);
        let scene = Self {
            agents,
            controller,
            cluster,
        };
        eventually(PATIENCE, || {
            scene.status(&[]).matches(" AVAILABLE ").count() == 2
        });
        scene
    }

    /// What `pulsepath status` prints on the controller's node.
    fn status(&self, arguments: &[&str]) -> String {
        let output = pulsepath(
            self.cluster.node(1).netns(),
            &[&["status"], arguments].concat(),
        );
        stdout(&output)
    }

    /// Starts `pulsepath watch` on the controller's node, and lets n2's agent die and come back
    /// until it has something to tell: before its stream is open it hears of nothing.
    fn watch(&mut self, arguments: &[&str]) -> Process {
        let program = bin_dir().unwrap().join("pulsepath");
        let mut command = self.cluster.node(1).netns().command(program);
        command.arg("watch").args(arguments);
        let log = self.cluster.files().join("watch.log");
        let watch = Process::spawn("watch", &command, &log).unwrap();
        eventually(PATIENCE * 2, || {
            self.agents.pop().unwrap().kill().unwrap();
            eventually(PATIENCE, || self.status(&[]).contains("UNAVAILABLE"));
            self.agents.push(start_agent(&self.cluster, 2, ""));
            eventually(PATIENCE, || !self.status(&[]).contains("UNAVAILABLE"));
            !watch.log().is_empty()
        });
        watch
    }
}

fn start_controller(cluster: &Cluster) -> Process {
    let config = cluster.controller_config("period = '50ms'\ntimeout = '500ms'\n");
    let controller = cluster.node(1).spawn_controller(&config).unwrap();
    eventually(PATIENCE, || {
        cluster.node(1).controller_http("/live").is_ok()
    });
    controller
}

#[test]
fn status_is_a_table_of_every_node() {
    let scene = Scene::new("p-status");
    let table = scene.status(&[]);
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("NODE  STATE      FOR"), "{table}");
    for (line, name) in lines[1..].iter().zip(["n1", "n2"]) {
        assert!(
            line.starts_with(&format!("{name}    AVAILABLE  ")),
            "{table}"
        );
        assert!(
            line.contains("up, beat ") && line.contains("fd77::"),
            "{table}"
        );
    }
    assert!(!table.contains('\x1b'), "no colours in a pipe");
}

#[test]
fn status_as_json_is_the_controllers_own() {
    let scene = Scene::new("p-status-json");
    let list: NodeList = serde_json::from_str(&scene.status(&["-o", "json"])).unwrap();
    let states: Vec<_> = list
        .nodes
        .iter()
        .map(|node| (node.name.as_str(), node.state))
        .collect();
    assert_eq!(states, [("n1", State::Available), ("n2", State::Available)]);
}

#[test]
fn status_without_a_controller_says_where_it_looked() {
    let cluster = Cluster::new("p-status-none", 1).unwrap();
    let output = pulsepath(cluster.hub(), &["status"]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(
        said.contains("http://127.0.0.1:9865") && said.contains("refused"),
        "{said}"
    );
}

#[test]
fn watch_tells_a_transition_and_goes_on_after_the_controllers_restart() {
    let mut scene = Scene::new("p-watch");
    let watch = scene.watch(&[]);
    let told = " n2 AVAILABLE -> UNAVAILABLE (AgentSilent, silent for ";
    eventually(PATIENCE, || watch.log().contains(told));
    scene.controller.terminate().unwrap();
    eventually(PATIENCE, || watch.log().contains("has ended"));
    scene.controller = start_controller(&scene.cluster);
    eventually(PATIENCE, || watch.log().contains("connected again"));
    scene.agents.pop().unwrap().kill().unwrap();
    eventually(PATIENCE, || watch.log().matches(told).count() >= 2);
}

#[test]
fn watch_as_json_is_one_transition_a_line() {
    let mut scene = Scene::new("p-watch-json");
    let watch = scene.watch(&["-o", "json"]);
    let log = watch.log();
    let transition: Transition = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    assert_eq!(transition.node, "n2");
}
