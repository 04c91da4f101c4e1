//! Witnesses extend leases beside the controller, and nothing moves without a majority of them.

use std::time::Duration;

use controller::failover::{Cause, Event, Fencing, PlannerSettings, WitnessSettings};
use controller::health::State;

use crate::world::{SETTINGS, World, gateway};

const LEASE: Duration = Duration::from_millis(1400);
/// As long where there are too few nodes.
const ALONE: Duration = Duration::from_secs(10);
const QUORUM: PlannerSettings = PlannerSettings {
    fencing: Fencing::Quorum {
        lease: LEASE,
        alone: ALONE,
        witnesses: WitnessSettings {
            count: 3,
            patience: Duration::from_secs(60),
        },
    },
    ..SETTINGS
};
/// A lease by the slowest clock, and what is added to be sure.
const OVER: Duration = Duration::from_millis(1_464);
const MS: Duration = Duration::from_millis(1);
const POOL: &[&str] = &["10.0.0.1"];

/// So many nodes, one address, and its owner.
fn scene(nodes: usize) -> (World, String) {
    let world = World::with(QUORUM, nodes, POOL);
    let owner = world.owner().unwrap();
    (world, owner)
}

fn members(world: &World) -> Vec<String> {
    let members = world.planner.roster().members.iter();
    members.map(|member| member.node.clone()).collect()
}

/// Everyone else's agents among the witnesses of `node`.
fn witnesses_of(world: &World, node: &str) -> Vec<String> {
    let set = world.planner.roster().set(node);
    set.map(|member| member.node.clone()).collect()
}

/// The witnesses of `node` are cut off from the controller, all but so many; nobody tells it.
fn silence(world: &mut World, node: &str, but: usize) {
    let witnesses = witnesses_of(world, node);
    world.mute.extend(witnesses.into_iter().skip(but));
}

#[test]
fn every_candidate_is_told_its_witnesses_none_of_which_is_itself() {
    let (world, _) = scene(5);
    assert_eq!(members(&world), ["n1", "n2", "n3", "n4"]);
    for (node, told) in &world.told {
        let set = told.witnesses.as_ref().unwrap();
        let own: u64 = node.trim_start_matches('n').parse().unwrap();
        assert_eq!(set.instances.len(), 3);
        assert!(!set.instances.contains(&own));
    }
}

#[test]
fn witnesses_are_recorded_before_anyone_is_told() {
    let mut world = World::new(QUORUM);
    world.set_gateways(vec![gateway("gw", POOL)]);
    world.set_nodes((1..=4).map(|index| format!("n{index}")));
    for name in world.node_names() {
        world.observe(&name, State::Available);
    }
    world.run();
    let record = world.record.unwrap();
    assert_eq!(record.rosters.last().unwrap().members.len(), 4);
    assert!(world.told.values().all(|told| told.witnesses.is_some()));
}

#[test]
fn a_silent_owners_address_moves_once_its_witnesses_have_promised_and_its_lease_is_over() {
    let (mut world, owner) = scene(5);
    world.cut(&owner);
    let raised = world.renewals.as_ref().unwrap().floors[owner.as_str()];
    for witness in witnesses_of(&world, &owner) {
        let duty = &world.witnesses.duties[&witness];
        let watched = duty.watched.iter().find(|(node, _)| **node == *owner);
        assert_eq!(watched.unwrap().1, raised);
    }
    // The last reply came when it was cut.
    world.pass(OVER - MS);
    assert_eq!(world.owner().as_ref(), Some(&owner));
    world.pass(MS);
    assert_ne!(world.owner().unwrap(), owner);
    assert_eq!(world.moves(), [("10.0.0.1".to_owned(), Cause::Unreachable)]);
}

#[test]
fn a_minority_of_witnesses_that_is_silent_holds_nothing_up() {
    let (mut world, owner) = scene(5);
    silence(&mut world, &owner, 2);
    world.cut(&owner);
    world.pass(OVER);
    assert_ne!(world.owner().unwrap(), owner);
}

#[test]
fn without_a_majority_of_witnesses_nothing_moves() {
    let (mut world, owner) = scene(5);
    silence(&mut world, &owner, 1);
    world.cut(&owner);
    world.pass(20 * OVER);
    assert_eq!(world.owner().as_ref(), Some(&owner));
    let why = world.explain("10.0.0.1");
    assert!(
        why.contains("1 of its 3 witnesses") && why.contains("NoQuorum"),
        "{why}"
    );
    world.mute.clear();
    world.testify_all();
    assert_ne!(world.owner().unwrap(), owner, "they promise");
}

#[test]
fn votes_that_went_on_after_the_controller_heard_the_node_last_count() {
    let (mut world, owner) = scene(5);
    silence(&mut world, &owner, 0);
    world.cut(&owner);
    world.pass(Duration::from_secs(5));
    let now = world.now.instant;
    world.witnesses.hear(now, &owner);
    world.mute.clear();
    world.testify_all();
    world.pass(OVER - MS);
    assert_eq!(world.owner().as_ref(), Some(&owner));
    world.pass(MS);
    assert_ne!(world.owner().unwrap(), owner);
}

#[test]
fn an_agent_that_confirms_needs_no_witness() {
    let (mut world, owner) = scene(5);
    silence(&mut world, &owner, 0);
    world.mute.remove(&owner);
    world.drain(&owner);
    assert_ne!(world.owner().unwrap(), owner);
}

#[test]
fn a_new_controller_needs_promises_of_the_witnesses_that_the_last_one_recorded() {
    let (mut world, owner) = scene(5);
    world.pass(Duration::from_secs(1));
    world.observe(&owner, State::Unreachable);
    silence(&mut world, &owner, 0);
    world.restart(QUORUM, vec![gateway("gw", POOL)]);
    world.pass(20 * OVER);
    assert_eq!(world.owner().as_ref(), Some(&owner));
    world.mute.clear();
    world.testify_all();
    assert_ne!(world.owner().unwrap(), owner);
}

#[test]
fn two_nodes_have_long_leases_and_no_witnesses_and_a_third_changes_both() {
    let (mut world, _) = scene(2);
    let lease = |world: &World| world.told["n1"].lease_ms;
    assert_eq!(lease(&world), 10_000);
    assert!(members(&world).is_empty());
    world.set_nodes((1..=3).map(|index| format!("n{index}")));
    world.observe("n3", State::Available);
    world.run();
    assert_eq!(lease(&world), 1_400);
    assert_eq!(members(&world).len(), 2);
    assert_eq!(world.record.as_ref().unwrap().lease_ms, 10_000);
    world.pass(ALONE * 2);
    world.cut("n3");
    assert_eq!(world.record.unwrap().lease_ms, 1_400);
}

#[test]
fn a_witness_that_is_gone_for_long_is_replaced_and_its_node_keeps_its_lease() {
    let (mut world, owner) = scene(6);
    let gone = witnesses_of(&world, &owner)[0].clone();
    world.mute.insert(gone.clone());
    for _ in 0..13 {
        world.pass(Duration::from_secs(5));
        world.testify_all();
    }
    assert!(!members(&world).contains(&gone));
    assert_eq!(members(&world).len(), 4);
    assert_eq!(world.owner().as_ref(), Some(&owner));
    assert_eq!(world.moves(), []);
}

#[test]
fn a_witness_is_replaced_only_once_every_owner_has_confirmed_the_last_change() {
    let (mut world, owner) = scene(7);
    let first: Vec<String> = witnesses_of(&world, &owner);
    world
        .mute
        .extend([owner.clone(), first[0].clone(), first[1].clone()]);
    for _ in 0..30 {
        world.pass(Duration::from_secs(5));
        world.testify_all();
    }
    let staying = |world: &World| {
        let members = members(world);
        first.iter().filter(|it| members.contains(it)).count()
    };
    assert_eq!(staying(&world), 2, "one of both is replaced");
    world.mute.remove(&owner);
    world.confirm(&owner);
    world.run();
    assert_eq!(staying(&world), 1);
}

/// Six nodes with an address each, four of which fall at once; two of the four witnesses do not.
fn mass_failure(hears: bool) -> World {
    let mut world = World::with(QUORUM, 6, &["10.0.0.1-10.0.0.6"]);
    world.pass(Duration::from_secs(10));
    let lost = ["n3", "n4", "n5", "n6"];
    world.now.instant += Duration::from_secs(1);
    for node in ["n1", "n2"] {
        world.observe(node, State::Available);
    }
    for node in lost {
        if hears {
            world.witnesses.hear(world.now.instant, node);
        }
        world.observe(node, State::Unreachable);
    }
    world.run();
    assert!(
        world
            .events
            .iter()
            .any(|event| matches!(event, Event::Held { .. }))
    );
    world.pass(Duration::from_secs(5));
    world
}

#[test]
fn a_mass_failure_that_most_witnesses_confirm_moves_addresses() {
    let world = mass_failure(false);
    let owners = world.owners();
    let owners: Vec<&str> = owners.values().flatten().map(String::as_str).collect();
    assert!(
        owners.iter().all(|it| ["n1", "n2"].contains(it)),
        "{owners:?}"
    );
}

#[test]
fn a_mass_failure_that_witnesses_know_nothing_of_moves_nothing() {
    let world = mass_failure(true);
    assert_eq!(world.moves(), []);
}
