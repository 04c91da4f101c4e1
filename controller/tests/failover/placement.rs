//! Where addresses go.

use std::collections::BTreeMap;
use std::time::Duration;

use controller::health::State;

use crate::world::{SETTINGS, World, gateway};

fn loads(world: &World) -> BTreeMap<String, usize> {
    let mut loads = BTreeMap::new();
    for owner in world.owners().into_values().flatten() {
        *loads.entry(owner).or_default() += 1;
    }
    loads
}

#[test]
fn addresses_are_spread_over_the_candidates() {
    let world = World::with(SETTINGS, 4, &["10.78.0.0/28"]);
    let loads = loads(&world);
    assert_eq!(loads.values().sum::<usize>(), 16);
    assert!(loads.values().all(|load| *load <= 4), "{loads:?}");
}

#[test]
fn what_a_dead_node_had_is_spread_over_the_others() {
    let mut world = World::with(SETTINGS, 4, &["10.78.0.0/28"]);
    world.cut("n1");
    let loads = loads(&world);
    assert_eq!(loads.values().sum::<usize>(), 16);
    assert!(loads.values().all(|load| *load <= 6), "{loads:?}");
}

#[test]
fn one_more_node_moves_nothing() {
    let mut world = World::with(SETTINGS, 3, &["10.78.0.0/28"]);
    let before = world.owners();
    world.set_nodes((1..=4).map(|index| format!("n{index}")));
    world.set_state("n4", State::Available);
    world.pass(Duration::from_secs(60));
    assert_eq!(world.owners(), before);
}

#[test]
fn the_first_node_to_answer_does_not_get_everything() {
    let mut world = World::new(SETTINGS);
    world.set_gateways(vec![gateway("gw", &["10.78.0.0/28"])]);
    world.set_nodes((1..=4).map(|index| format!("n{index}")));
    for name in world.node_names() {
        world.pass(Duration::from_millis(50));
        world.set_state(&name, State::Available);
    }
    assert_eq!(loads(&world).len(), 4);
}

#[test]
fn a_node_that_never_answers_holds_up_first_placements_for_a_while_only() {
    let mut world = World::new(SETTINGS);
    world.set_gateways(vec![gateway("gw", &["10.78.0.100"])]);
    world.set_nodes(["n1".to_owned(), "n2".to_owned()]);
    world.set_state("n1", State::Available);
    assert_eq!(world.owner(), None);
    assert!(world.explain("10.78.0.100").contains("have no state yet"));
    let due = world.planner.next_wake().unwrap();
    assert_eq!(due - world.now.instant, SETTINGS.settle);
    world.pass(SETTINGS.settle);
    assert_eq!(world.owner().as_deref(), Some("n1"));
}

#[test]
fn only_selected_nodes_get_addresses() {
    let mut world = World::with(SETTINGS, 3, &["10.78.0.0/28"]);
    world.select("n2", false);
    assert!(!loads(&world).contains_key("n2"));
    assert_eq!(world.assigned(), 16);
}
