//! What candidates are told of their gateways, whether they own an address or not.

use std::collections::BTreeMap;

use controller::failover::Gateway;
use controller::health::State;

use crate::world::{SETTINGS, World, gateway};

const POOL: [&str; 1] = ["10.78.0.100"];

fn with_source(source: &str) -> Gateway {
    Gateway {
        sources: vec![source.parse().unwrap()],
        ..gateway("gw", &POOL)
    }
}

/// By node: the sources of the gateways that it was told of last.
fn told(world: &World) -> BTreeMap<&str, Vec<String>> {
    let sources = |desired: &probe_user::egress::Desired| {
        let all = desired.gateways.iter().flat_map(|it| &it.sources);
        all.map(ToString::to_string).collect()
    };
    let told = world.told.iter();
    told.map(|(node, desired)| (&**node, sources(desired)))
        .collect()
}

fn world(nodes: usize, source: &str) -> World {
    let mut world = World::new(SETTINGS);
    world.set_gateways(vec![with_source(source)]);
    world.set_nodes((1..=nodes).map(|index| format!("n{index}")));
    for name in world.node_names() {
        world.observe(&name, State::Available);
    }
    world.run();
    world
}

#[test]
fn every_candidate_is_told_whose_traffic_leaves_from_the_gateway() {
    let world = world(3, "10.1.0.0/16");
    let source = || vec!["10.1.0.0/16".to_owned()];
    let expected = ["n1", "n2", "n3"].map(|node| (node, source()));
    assert_eq!(told(&world), BTreeMap::from(expected));
}

#[test]
fn a_source_that_changes_is_told_to_every_candidate_and_moves_nothing() {
    let mut world = world(3, "10.1.0.0/16");
    let owner = world.owner();
    world.set_gateways(vec![with_source("10.2.0.0/16")]);
    world.run();
    let sources: Vec<_> = told(&world).into_values().flatten().collect();
    assert_eq!(sources, ["10.2.0.0/16"; 3]);
    assert_eq!((world.owner(), world.moves().len()), (owner, 0));
}

#[test]
fn a_node_that_is_selected_no_more_is_told_so_and_one_that_is_again_as_well() {
    let mut world = world(2, "10.1.0.0/16");
    let owner = world.owner().unwrap();
    let other = if owner == "n1" { "n2" } else { "n1" };
    world.select(other, false);
    assert!(told(&world)[other].is_empty());
    world.select(other, true);
    assert_eq!(told(&world)[other].len(), 1);
    assert_eq!(world.owner(), Some(owner));
}

#[test]
fn a_gateway_that_is_gone_is_told_to_those_that_had_no_address_of_it_too() {
    let mut world = world(2, "10.1.0.0/16");
    world.set_gateways(Vec::new());
    world.run();
    assert!(told(&world).values().all(Vec::is_empty), "{:?}", world.told);
}

#[test]
fn what_stays_the_same_is_not_told_again() {
    let mut world = world(2, "10.1.0.0/16");
    let before = world.told.clone();
    world.set_gateways(vec![with_source("10.1.0.0/16")]);
    world.set_nodes(world.node_names());
    world.run();
    assert_eq!(world.told, before);
}
