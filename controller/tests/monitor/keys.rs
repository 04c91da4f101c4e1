//! Keys are rotated while nodes are probed.

use controller::consumers::Consumer;
use controller::health::State;
use probe_user::keys::NodeKey;

use crate::world::{HEALTHY, PERIOD, World};

const NODES: &[(&str, &[&str])] = &[("n1", &["10.0.0.1"]), ("n2", &["10.0.0.2"])];

/// Nodes that answer with the current key only, and know of no other.
fn before() -> (World, Consumer) {
    let (mut world, consumer) = World::watching(NODES);
    for (node, addresses) in NODES {
        world.answer_as(addresses[0], HEALTHY);
        let keys = world.keys.node_keys(node).all().to_vec();
        world.held.insert((*node).to_owned(), keys);
    }
    world.run(4 * PERIOD);
    (world, consumer)
}

fn all_keys(world: &World, node: &str) -> Vec<NodeKey> {
    world.keys.node_keys(node).all().to_vec()
}

/// The node takes what the cluster has, and its agent says so.
fn confirm(world: &mut World, node: &str) {
    let keys = all_keys(world, node);
    world.held.insert(node.to_owned(), keys.clone());
    world.monitor.note_keys(world.now, node, Ok(keys));
}

fn begin(world: &mut World) {
    world.keys.begin_rotation().expect("one key");
    world.configure(NODES);
}

fn finish(world: &mut World) {
    world.keys.finish_rotation().expect("two keys");
    world.configure(NODES);
}

fn lost(world: &World) -> [u64; 2] {
    ["n1", "n2"].map(|node| world.view(node).lost)
}

#[test]
fn a_rotation_that_every_node_confirms_loses_no_probe() {
    let (mut world, _consumer) = before();
    begin(&mut world);
    world.run(20 * PERIOD);
    for node in ["n1", "n2"] {
        confirm(&mut world, node);
        world.run(20 * PERIOD);
    }
    finish(&mut world);
    world.run(20 * PERIOD);
    for node in ["n1", "n2"] {
        confirm(&mut world, node);
        world.run(20 * PERIOD);
    }
    assert_eq!(lost(&world), [0, 0]);
    assert_eq!(world.view("n1").keys.valid, [2]);
}

#[test]
fn a_node_that_has_not_confirmed_is_probed_with_the_current_key() {
    let (mut world, _consumer) = before();
    begin(&mut world);
    confirm(&mut world, "n1");
    let failed = Err("it does not answer".to_owned());
    world.monitor.note_keys(world.now, "n2", failed);
    world.run(20 * PERIOD);
    assert_eq!(lost(&world), [0, 0]);
    let conditions = |world: &World, node| {
        let node = world.view(node).to_api(world.now, 5 * PERIOD);
        node.conditions.into_iter().map(|it| it.message).collect()
    };
    let of_n1: Vec<String> = conditions(&world, "n1");
    let of_n2: Vec<String> = conditions(&world, "n2");
    assert!(of_n1.is_empty(), "{of_n1:?}");
    assert_eq!(
        of_n2,
        ["it has not confirmed probe key 2: it does not answer"]
    );
}

#[test]
fn the_next_key_is_in_use_before_the_rotation_is_finished() {
    let (mut world, _consumer) = before();
    begin(&mut world);
    confirm(&mut world, "n1");
    let next = all_keys(&world, "n1")[1..].to_vec();
    world.held.insert("n1".to_owned(), next);
    world.run(20 * PERIOD);
    assert_eq!(lost(&world), [0, 0]);
}

#[test]
fn a_node_that_was_left_behind_is_heard_again_once_it_has_the_key() {
    let (mut world, _consumer) = before();
    begin(&mut world);
    confirm(&mut world, "n1");
    finish(&mut world);
    world.run(20 * PERIOD);
    assert_eq!(world.state("n1"), State::Available);
    assert_eq!(world.state("n2"), State::Unreachable);
    confirm(&mut world, "n2");
    world.run(4 * PERIOD);
    assert_eq!(world.state("n2"), State::Available);
}
