//! The configuration changes while the controller runs.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::symlink;

use controller::api::State;
use probe_user::keys::ClusterKeys;
use pulsepath_tests::{Signal, eventually};

use crate::world::{PATIENCE, World};

/// Two nodes, the second UNAVAILABLE: a state that no reply alone would give it again.
fn second_unavailable(purpose: &str) -> World {
    let mut world = World::all_available(purpose, 2);
    world.kill_agent(2);
    world.await_state("n2", State::Unavailable);
    world
}

fn addresses(world: &World, index: u8) -> [IpAddr; 2] {
    let node = world.cluster.node(index);
    [node.ipv4().into(), node.ipv6().into()]
}

fn names(world: &World) -> Vec<String> {
    world.nodes().into_iter().map(|node| node.name).collect()
}

#[test]
fn nodes_are_added_and_removed_and_the_others_keep_their_state() {
    let world = second_unavailable("reload");
    let since = world.node("n2").since;
    let [first, second] = [addresses(&world, 1), addresses(&world, 2)];
    let nobody: IpAddr = "10.77.0.99".parse().unwrap();
    world.rewrite_config(&world.config_of(&[("n2", &second), ("n9", &[nobody])]));
    eventually(PATIENCE, || names(&world) == ["n2", "n9"]);
    world.await_state("n9", State::Unreachable);
    assert!(
        !world.get("/metrics").1.contains("\"n1\""),
        "its series went with it"
    );
    world.rewrite_config(&world.config_of(&[("n1", &first), ("n2", &second)]));
    eventually(PATIENCE, || names(&world) == ["n1", "n2"]);
    world.await_state("n1", State::Available);
    let kept = world.node("n2");
    assert_eq!((kept.state, kept.since), (State::Unavailable, since));
}

#[test]
fn a_readdressed_node_keeps_its_state_and_is_probed_at_its_new_address() {
    let world = second_unavailable("readdress");
    let since = world.node("n2").since;
    let [v4, v6] = addresses(&world, 2);
    for address in [v4, v6] {
        world.rewrite_config(&world.config_of(&[("n2", &[address])]));
        eventually(PATIENCE, || match &world.node("n2").addresses[..] {
            [only] => only.address == address && only.answering,
            _ => false,
        });
    }
    let kept = world.node("n2");
    assert_eq!((kept.state, kept.since), (State::Unavailable, since));
}

#[test]
fn a_file_that_is_no_configuration_leaves_the_last_good_one_in_force() {
    let world = second_unavailable("broken");
    world.rewrite_config("nodes = 'none'");
    eventually(PATIENCE, || {
        world.metric("pulsepath_config_reload_failures_total") == 1.0
    });
    assert_eq!(names(&world), ["n1", "n2"]);
    assert_eq!(world.node("n2").state, State::Unavailable);
    assert!(world.controller_log().contains("`nodes`"));
}

#[test]
fn a_node_with_a_bad_address_stays_as_it_was_and_the_others_follow() {
    let world = second_unavailable("badaddress");
    let config = world.config_of(&[("n2", &addresses(&world, 2))]);
    world.rewrite_config(&config.replace("10.77.0.2", "10.77.0.256"));
    eventually(PATIENCE, || names(&world) == ["n2"]);
    let node = world.node("n2");
    assert_eq!(node.state, State::Unavailable);
    assert_eq!(node.addresses[0].address, addresses(&world, 2)[0]);
    assert_eq!(node.conditions[0].name, "BadConfiguration");
    assert!(
        node.conditions[0].message.contains("10.77.0.256"),
        "{node:?}"
    );
    assert_eq!(world.metric("pulsepath_config_reload_failures_total"), 1.0);
}

#[test]
fn labels_change_without_anything_else() {
    let world = second_unavailable("relabel");
    let config = world.config_of(&[("n2", &addresses(&world, 2))]);
    world.rewrite_config(&format!("{config}labels = {{ zone = 'b' }}\n"));
    eventually(PATIENCE, || {
        world
            .node("n2")
            .labels
            .get("zone")
            .is_some_and(|zone| zone == "b")
    });
    assert_eq!(world.node("n2").state, State::Unavailable);
}

#[test]
fn a_configuration_that_kubernetes_swaps_by_symbolic_link_is_followed() {
    let mut world = World::new("symlink", 1);
    let directory = world.cluster.files().join("mounted");
    let at = |name: &str| directory.join(name);
    for (version, nodes) in [("v1", "n1"), ("v2", "n2")] {
        fs::create_dir_all(at(version)).unwrap();
        let address = addresses(&world, 1)[0];
        fs::write(
            at(version).join("c.toml"),
            world.config_of(&[(nodes, &[address])]),
        )
        .unwrap();
    }
    symlink("v1", at("data")).unwrap();
    symlink("data/c.toml", at("c.toml")).unwrap();
    let (file, program) = (at("c.toml"), "pulsepath-controller");
    let arguments = ["run".as_ref(), "--config".as_ref(), file.as_os_str()];
    world.controller = Some(world.cluster.node(1).spawn(program, arguments).unwrap());
    world.await_controller();
    assert_eq!(names(&world), ["n1"]);
    symlink("v2", at("new")).unwrap();
    fs::rename(at("new"), at("data")).unwrap();
    eventually(PATIENCE, || names(&world) == ["n2"]);
}

#[test]
fn a_hangup_reloads_at_once() {
    let mut world = World::new("hangup", 1);
    world.start_controller(&world.config());
    let reloads = |world: &World| {
        world
            .controller_log()
            .matches("configuration reloaded")
            .count()
    };
    world.controller().signal(Signal::SIGHUP).unwrap();
    eventually(PATIENCE, || reloads(&world) == 1);
}

#[test]
fn a_replaced_cluster_key_is_followed() {
    let world = World::all_available("rekey", 1);
    let file = world.cluster.files().join("cluster.key");
    let [right, wrong] = ["right.key", "wrong.key"].map(|name| world.cluster.files().join(name));
    fs::copy(&file, &right).unwrap();
    ClusterKeys::generate(1).unwrap().write_new(&wrong).unwrap();
    fs::rename(&wrong, &file).unwrap();
    world.await_state("n1", State::Unreachable);
    fs::rename(&right, &file).unwrap();
    world.await_state("n1", State::Available);
}
