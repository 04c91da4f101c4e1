//! When most nodes are lost at once, nothing moves.

use controller::api::{EgressIp, State};
use pulsepath_tests::{LinkState, eventually};

use crate::world::{PATIENCE, World};

#[test]
fn a_controller_whose_own_link_is_cut_moves_nothing() {
    let world = World::new("deaf", 6, "egress_ips = ['10.77.0.100-10.77.0.111']");
    world.await_assigned(12);
    cut_the_controller_off(&world, 6);
    assert!(!world.metrics().contains("pulsepath_failovers_total{"));
}

/// A story, since twenty agents take a while to start.
#[test]
fn of_twenty_nodes_a_fifth_may_vanish_at_once_but_neither_three_fifths_nor_all() {
    let world = World::with_many("share", 20, "egress_ips = ['10.77.0.100-10.77.0.119']");
    world.await_assigned(20);
    cut_the_controller_off(&world, 20);
    cut_a_fifth(&world);
    cut_three_fifths(&world);
}

/// All nodes of `1..=nodes` seem to be gone, and nothing moves, then or when they are back.
fn cut_the_controller_off(world: &World, nodes: u8) {
    let before = world.owners();
    world.set_controller_link(LinkState::Down);
    (1..=nodes).for_each(|index| world.await_state(index, State::Unreachable));
    assert_held(world);
    assert!(world.explain("10.77.0.100").contains("suspects itself"));
    world.set_controller_link(LinkState::Up);
    (1..=nodes).for_each(|index| world.await_state(index, State::Available));
    await_resumed(world);
    assert_eq!(world.owners(), before);
}

/// What the lost nodes own moves, and nothing else.
fn cut_a_fifth(world: &World) {
    let before = world.addresses();
    world.cut_all(&[1, 2, 3, 4]);
    let moved = eventually(PATIENCE, || {
        let now = world.addresses();
        let all_live = now.iter().all(|it| owner(it) > Some(4));
        if all_live { Ok(now) } else { Err(now) }
    });
    for (was, is) in before.iter().zip(&moved) {
        let stays = owner(was) > Some(4);
        assert_eq!(stays, was.owner == is.owner, "{was:?}, {is:?}");
    }
    assert!(world.metrics().contains("pulsepath_failover_held 0"));
    world.heal_all(&[1, 2, 3, 4]);
}

/// Nothing moves but what an administrator asks for. No witness is lost: without most of them not even
/// that would move.
fn cut_three_fifths(world: &World) {
    let before = world.owners();
    let witnesses = world.gateways().failover.witnesses;
    let is_witness = |index: u8| witnesses.iter().any(|it| number(&it.node) == index);
    let lost: Vec<u8> = (1..=20)
        .filter(|index| !is_witness(*index))
        .take(12)
        .collect();
    world.cut_all(&lost);
    assert_held(world);
    assert_eq!(world.owners(), before);
    let mut owners = before.iter().flatten();
    let drained = owners.find(|it| lost.contains(&number(it))).unwrap();
    world.post(&format!("/v1/nodes/{drained}/drain"));
    eventually(PATIENCE, || {
        let owners = world.owners();
        let moved = owners.iter().flatten().all(|it| it != drained);
        if moved { Ok(()) } else { Err(owners) }
    });
    assert_held(world);
    world.heal_all(&lost);
    await_resumed(world);
    for (was, is) in before.iter().zip(world.owners()) {
        assert_eq!(*was != is, was.as_ref() == Some(drained), "{was:?}, {is:?}");
    }
}

/// The number of the node that owns an address.
fn owner(address: &EgressIp) -> Option<u8> {
    address.owner.as_deref().map(number)
}

fn number(name: &str) -> u8 {
    name.trim_start_matches('n').parse().unwrap()
}

fn assert_held(world: &World) {
    assert!(world.gateways().failover.held.is_some());
    assert!(world.metrics().contains("pulsepath_failover_held 1"));
}

fn await_resumed(world: &World) {
    eventually(PATIENCE, || world.gateways().failover.held.is_none());
    assert!(world.metrics().contains("pulsepath_failover_held 0"));
}
