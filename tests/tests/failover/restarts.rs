//! What a restart of agents or of the controller does to addresses: nothing.

use controller::api::State;
use pulsepath_tests::eventually;

use crate::world::{PATIENCE, World};

const POOL: &str = "egress_ips = ['10.77.0.100-10.77.0.105']";

#[test]
fn a_new_controller_moves_nothing_and_decides_in_the_next_term() {
    let mut world = World::new("restart", 2, POOL);
    world.await_assigned(6);
    let (before, term) = (world.owners(), world.gateways().failover.term);
    world.restart_controller();
    for index in 1..=2 {
        world.await_state(index, State::Available);
    }
    assert_eq!(world.owners(), before);
    assert_eq!(world.gateways().failover.term, term + 1);
}

#[test]
fn killed_agents_move_nothing() {
    let mut world = World::new("kill", 2, POOL);
    world.await_assigned(6);
    let before = world.owners();
    for index in 1..=2 {
        world.kill_agent(index);
        world.await_state(index, State::Unavailable);
        assert_eq!(world.owners(), before);
        world.start_agent(index);
        world.await_state(index, State::Available);
    }
    assert_eq!(world.owners(), before);
    assert!(!world.metrics().contains("pulsepath_failovers_total{"));
}

#[test]
fn a_drain_outlives_the_controller() {
    let mut world = World::new("drained", 2, POOL);
    world.await_assigned(6);
    world.post("/v1/nodes/n1/drain");
    world.restart_controller();
    world.await_state(2, State::Available);
    eventually(PATIENCE, || {
        let owners = world.owners();
        let moved = owners.iter().all(|owner| owner.as_deref() == Some("n2"));
        if moved { Ok(()) } else { Err(owners) }
    });
    assert_eq!(world.gateways().failover.drained, ["n1"]);
}

#[test]
fn a_node_deleted_while_no_controller_ran_is_told_to_release_its_addresses() {
    let mut world = World::new("deleted", 2, POOL);
    world.await_assigned(6);
    let held = |world: &World| {
        let hosts = 100..=105;
        hosts
            .filter(|host| world.holds(1, &format!("10.77.0.{host}")))
            .count()
    };
    eventually(PATIENCE, || held(&world) == 3);
    // Its agent does not hear of it from the first controller that knows.
    world.kill_agent(1);
    world.restart_controller_without(1);
    eventually(PATIENCE, || {
        let owners = world.owners();
        let moved = owners.iter().all(|owner| owner.as_deref() == Some("n2"));
        if moved { Ok(()) } else { Err(owners) }
    });
    world.restart_controller();
    world.start_agent(1);
    eventually(PATIENCE, || match held(&world) {
        0 => Ok(()),
        held => Err(held),
    });
}
