//! When most nodes are lost at once, nothing moves.

use controller::api::State;
use pulsepath_tests::{LinkState, eventually};

use crate::world::{PATIENCE, World};

#[test]
fn a_controller_whose_own_link_is_cut_moves_nothing() {
    let world = World::new("deaf", 6, "egress_ips = ['10.77.0.100-10.77.0.111']");
    world.await_assigned(12);
    let before = world.addresses();
    world.set_controller_link(LinkState::Down);
    for index in 1..=6 {
        world.await_state(index, State::Unreachable);
    }
    assert!(world.gateways().failover.held.is_some());
    assert!(world.metrics().contains("pulsepath_failover_held 1"));
    assert!(world.explain("10.77.0.100").contains("suspects itself"));
    world.set_controller_link(LinkState::Up);
    for index in 1..=6 {
        world.await_state(index, State::Available);
    }
    eventually(PATIENCE, || world.gateways().failover.held.is_none());
    let owners = |addresses: &[controller::api::EgressIp]| -> Vec<Option<String>> {
        addresses
            .iter()
            .map(|address| address.owner.clone())
            .collect()
    };
    assert_eq!(owners(&world.addresses()), owners(&before));
    assert!(!world.metrics().contains("pulsepath_failovers_total{"));
}
