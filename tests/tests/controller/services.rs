//! Services of which one node each is picked.

use std::fmt::Write as _;
use std::fs;
use std::net::IpAddr;

use controller::api::{Service, ServiceList, State};
use pulsepath_tests::eventually;

use crate::world::{PATIENCE, World};

/// So many that chance gives some of them to either of two nodes.
const SERVICES: usize = 10;

fn services() -> String {
    let mut config = String::new();
    for index in 0..SERVICES {
        // Writing to a string cannot fail.
        let _ = write!(config, "\n[[services]]\nname = 's{index}'\n");
    }
    config
}

fn shown(world: &World) -> Vec<Service> {
    let (status, body) = world.get("/v1/services");
    assert_eq!(status, 200, "{body}");
    serde_json::from_str::<ServiceList>(&body).unwrap().services
}

fn are_all_on(world: &World, node: &str) -> Result<(), Vec<Service>> {
    let shown = shown(world);
    let there = |service: &Service| service.node.as_deref() == Some(node);
    match shown.len() == SERVICES && shown.iter().all(there) {
        true => Ok(()),
        false => Err(shown),
    }
}

#[test]
fn services_are_added_to_the_file_and_removed_from_it() {
    let world = World::all_available("services", 1);
    assert!(shown(&world).is_empty());
    world.rewrite_config(&(world.config() + &services()));
    eventually(PATIENCE, || are_all_on(&world, "n1"));
    world.rewrite_config(&world.config());
    eventually(PATIENCE, || shown(&world).is_empty());
}

#[test]
fn who_was_picked_outlives_the_controller() {
    let mut world = World::new("picks", 2);
    world.start_agent(1);
    world.start_agent(2);
    let node = world.cluster.node(2);
    let addresses: [IpAddr; 2] = [node.ipv4().into(), node.ipv6().into()];
    world.start_controller(&(world.config_of(&[("n2", &addresses)]) + &services()));
    eventually(PATIENCE, || are_all_on(&world, "n2"));
    // A second node takes nothing over.
    let both = world.config() + &services();
    world.rewrite_config(&both);
    eventually(PATIENCE, || world.nodes().len() == 2);
    world.await_state("n1", State::Available);
    let before = shown(&world);
    eventually(PATIENCE, || {
        let kept = fs::read_to_string(world.state_file()).unwrap();
        kept.contains("\"s9\"")
    });
    world.controller().kill().unwrap();
    world.start_controller(&both);
    world.await_state("n1", State::Available);
    world.await_state("n2", State::Available);
    are_all_on(&world, "n2").unwrap();
    assert_eq!(shown(&world), before, "the times, too");
}
