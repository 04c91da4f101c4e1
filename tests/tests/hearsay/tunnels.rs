//! Nobody hears the owner any more, while others receive packets from its tunnels.

use std::time::Instant;

use controller::api::{Reason, State};
use pulsepath_tests::egress::PATIENCE;
use pulsepath_tests::eventually;

use crate::lost::{GRACE, cut_owner};
use crate::scene::{PERIOD, TIMEOUT, World};

#[test]
fn an_owner_whose_tunnels_are_busy_is_replaced_one_timeout_later_and_it_is_said_why() {
    let world = World::start("tunnels-busy", "fencing = 'none'");
    let _busy = world.busy_tunnels();
    let began = Instant::now();
    world.lose_replies();
    let condition = eventually(PATIENCE, || world.condition("TunnelsOnly"));
    println!("{}", condition.message);
    if began.elapsed() < 2 * TIMEOUT - PERIOD {
        assert_eq!(world.node().state, State::Available);
        assert_eq!(world.scene.owner().unwrap(), world.owner);
    }
    let took = world.await_given_up(began);
    println!("given up after {took:.2?}");
    let expected = 2 * TIMEOUT - PERIOD..2 * TIMEOUT + PERIOD + GRACE;
    assert!(expected.contains(&took), "{took:?}");
    assert_eq!(world.node().reason, Reason::TunnelsOnly);
    let explained = world.explanation();
    assert!(explained.contains("tunnels were busy"), "{explained}");
    assert!(world.metric("pulsepath_tunnel_asks_total{outcome=\"heard\"}") > 0.0);
    world.scene.await_owner(world.other()).unwrap();
}

#[test]
fn an_owner_whose_lease_is_over_is_replaced_however_busy_its_tunnels_are() {
    let world = World::start("tunnels-lease", "");
    let _busy = world.busy_tunnels();
    world.lose_replies();
    world.await_given_up(Instant::now());
    assert_eq!(world.node().reason, Reason::LeaseOver);
    world.scene.await_owner(world.other()).unwrap();
}

#[test]
fn an_owner_that_is_cut_while_its_tunnels_are_busy_is_replaced_as_soon_as_any() {
    let world = World::start("tunnels-cut", "");
    let _busy = world.busy_tunnels();
    cut_owner(&world);
}
