//! The sequences of OVN-Kubernetes' own end-to-end tests of egress IPs.

use controller::failover::Gateway;
use controller::health::State;

use crate::world::{SETTINGS, World, gateway};

#[test]
fn one_address_follows_the_nodes_that_are_available() {
    let mut world = World::new(SETTINGS);
    world.set_gateways(vec![gateway("gw", &["10.78.0.100"])]);
    world.set_nodes(["n1".to_owned(), "n2".to_owned()]);
    world.observe("n2", State::Unreachable);
    world.set_state("n1", State::Available);
    world.heal("n2");
    assert_eq!(world.owner().as_deref(), Some("n1"));
    world.cut("n1");
    assert_eq!(world.owner().as_deref(), Some("n2"));
    world.cut("n2");
    assert_eq!(world.owner(), None);
    world.heal("n1");
    assert_eq!(world.owner().as_deref(), Some("n1"));
    world.heal("n2");
    assert_eq!(world.owner().as_deref(), Some("n1"));
    world.drain("n1");
    assert_eq!(world.owner().as_deref(), Some("n2"));
    world.cut("n1");
    world.select("n2", false);
    assert_eq!(world.owner(), None);
    world.undrain("n1");
    assert_eq!(world.owner(), None);
    world.heal("n1");
    assert_eq!(world.owner().as_deref(), Some("n1"));
}

#[test]
fn of_two_addresses_at_most_one_is_on_each_node_where_that_is_asked_for() {
    let mut world = World::new(SETTINGS);
    let one_each = Gateway {
        max_per_node: Some(1),
        ..gateway("gw", &["10.78.0.100", "10.78.0.101"])
    };
    world.set_gateways(vec![one_each]);
    world.set_nodes(["n1".to_owned(), "n2".to_owned()]);
    world.observe("n1", State::Available);
    world.set_state("n2", State::Available);
    assert_eq!(world.assigned(), 2);
    world.cut("n1");
    assert_eq!(world.assigned(), 1);
    world.cut("n2");
    assert_eq!(world.assigned(), 0);
    world.heal("n1");
    assert_eq!(world.assigned(), 1);
    world.heal("n2");
    assert_eq!(world.assigned(), 2);
}
