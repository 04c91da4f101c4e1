//! Agents come and go; what is counted stays.

use std::collections::BTreeMap;

use probe_user::kernel::{LinkKind, scan_links, version_directory};
use pulsepath_tests::{Node, bin_dir, eventually, run};

use crate::scene::{SOON, Scene};

/// The counters' links, by their ids.
fn counters(node: &Node) -> BTreeMap<u32, LinkKind> {
    // One may go away while it is looked at.
    let links = eventually(SOON, || scan_links(&version_directory(node.pin_dir())));
    let counters = links
        .into_iter()
        .filter(|link| link.kind.counts().is_some());
    counters.map(|link| (link.id, link.kind)).collect()
}

#[test]
fn a_restarted_agent_goes_on_counting_with_its_own_programs() {
    let scene = Scene::new("restart", 2);
    let node = scene.node(1);
    let mut agent = scene.start(1, "");
    let before = counters(node);
    assert_eq!(before.len(), 2);
    scene.packets(1, 2, 500).unwrap();
    agent.kill().unwrap();
    scene.packets(1, 2, 500).unwrap();
    let _agent = scene.start(1, "");
    scene.packets(1, 2, 500).unwrap();
    assert_eq!(scene.counts(1, 2)[1].packets, 1500, "not one is missing");
    assert_eq!(counters(node), before, "the links are the same");
}

#[test]
fn an_agent_that_is_to_count_no_tunnels_takes_the_counters_off() {
    let scene = Scene::new("off", 2);
    let node = scene.node(1);
    scene.start(1, "").terminate().unwrap();
    assert_eq!(counters(node).len(), 2);
    let _agent = node.spawn_agent(&node.agent_config("")).unwrap();
    eventually(SOON, || counters(node).is_empty());
    scene.packets(1, 2, 10).unwrap();
    assert_eq!(scene.counts(1, 2)[1].packets, 0);
    let text = scene.inspect_tunnels(1, &[]);
    assert!(text.contains("tunnels.enabled"), "{text}");
}

#[test]
fn another_number_of_peers_is_taken_over_by_a_new_map() {
    let scene = Scene::new("resize", 2);
    scene.start(1, "").terminate().unwrap();
    scene.packets(1, 2, 10).unwrap();
    let _agent = scene.start(1, "tunnels.max_peers = 1000");
    assert_eq!(scene.counts(1, 2)[1].packets, 0, "it begins from zero");
    scene.packets(1, 2, 10).unwrap();
    assert_eq!(scene.counts(1, 2)[1].packets, 10);
}

#[test]
fn counting_goes_where_the_reflector_goes() {
    let scene = Scene::new("move", 2);
    let node = scene.node(2);
    for (mode, links) in [("native", 1), ("tcx", 2), ("native", 1)] {
        let settings = format!("reflector.attach = '{mode}'");
        let mut agent = scene.start(2, &settings);
        assert_eq!(counters(node).len(), links, "{mode}");
        let before = scene.counts(2, 1)[0].packets;
        scene.packets(1, 2, 1000).unwrap();
        eventually(SOON, || scene.counts(2, 1)[0].packets == before + 1000);
        agent.terminate().unwrap();
    }
}

#[test]
fn detach_takes_everything_off() {
    for hook in ["tcx", "clsact"] {
        let scene = Scene::new("detach", 1);
        let node = scene.node(1);
        scene
            .start(1, &format!("tunnels.hook = '{hook}'"))
            .terminate()
            .unwrap();
        let filters = || {
            let mut tc = node.netns().command("tc");
            run(tc.args(["filter", "show", "dev", "eth0", "ingress"])).unwrap()
        };
        assert_eq!(filters().contains("tunnel_in"), hook == "clsact");
        let mut detach = node
            .netns()
            .command(bin_dir().unwrap().join("pulsepath-agent"));
        detach.args(["detach", "--pin-dir"]).arg(node.pin_dir());
        run(detach.arg("--state-file").arg(node.agent_state_file())).unwrap();
        assert!(!node.pin_dir().exists());
        assert!(!filters().contains("tunnel_in"), "{}", filters());
    }
}
