//! Nobody gets an address that another node may still use.

use std::time::Duration;

use controller::failover::{Cause, Event, Fencing, PlannerSettings};
use controller::health::State;

use crate::world::{SETTINGS, World, gateway, ip};

const LEASE: Duration = Duration::from_secs(5);
const FENCED: PlannerSettings = PlannerSettings {
    fencing: Fencing::Strict { lease: LEASE },
    ..SETTINGS
};
/// A lease by the slowest clock, and what is added to be sure.
const OVER: Duration = Duration::from_millis(5_100);
const MS: Duration = Duration::from_millis(1);
const POOL: &[&str] = &["10.0.0.1"];

/// Two nodes and one address, that `n1` owns.
fn owned_by_n1() -> World {
    let mut world = World::with(FENCED, 2, &[]);
    world.observe("n2", State::Unavailable);
    world.set_gateways(vec![gateway("gw", POOL)]);
    world.run();
    world.set_state("n2", State::Available);
    assert_eq!(world.owner().as_deref(), Some("n1"));
    world
}

/// The floor that the probes to a node name.
fn floor(world: &World, node: &str) -> u64 {
    world.renewals.as_ref().unwrap().floors[node]
}

#[test]
fn candidates_are_renewed_as_of_the_first_epoch() {
    let world = owned_by_n1();
    assert_eq!((floor(&world, "n1"), floor(&world, "n2")), (0, 0));
    assert_eq!(world.renewals.as_ref().unwrap().lease, LEASE);
}

#[test]
fn a_silent_owners_address_moves_once_its_lease_is_over_and_no_earlier() {
    let mut world = owned_by_n1();
    let told = world.told["n1"].epoch;
    world.cut("n1");
    assert!(floor(&world, "n1") > told);
    assert_eq!(world.owner().as_deref(), Some("n1"));
    // The last reply came when it was cut.
    world.pass(OVER - MS);
    assert_eq!(world.owner().as_deref(), Some("n1"));
    world.pass(MS);
    assert_eq!(world.owner().as_deref(), Some("n2"));
    assert_eq!(world.moves(), [("10.0.0.1".to_owned(), Cause::Unreachable)]);
}

#[test]
fn an_agent_that_confirms_is_not_waited_for() {
    let mut world = owned_by_n1();
    world.drain("n1");
    assert_eq!(world.owner().as_deref(), Some("n2"));
    assert_eq!(floor(&world, "n1"), world.told["n1"].epoch);
}

/// Its owner's agent does not answer while it is cut off, and then is.
fn cut_and_back() -> World {
    let mut world = owned_by_n1();
    world.cut("n1");
    world.pass(OVER - MS);
    world.set_state("n1", State::Available);
    world
}

fn aborted(world: &World) -> usize {
    let is_aborted = |event: &&Event| matches!(event, Event::Aborted { .. });
    world.events.iter().filter(is_aborted).count()
}

#[test]
fn an_owner_that_is_back_before_its_lease_is_over_keeps_its_address() {
    let mut world = cut_and_back();
    assert_eq!(aborted(&world), 1);
    world.pass(2 * OVER);
    assert_eq!(world.owner().as_deref(), Some("n1"));
    assert_eq!(world.moves(), []);
    assert_eq!(
        world.record.unwrap().addresses[&ip(POOL[0])].releasing,
        None
    );
}

/// Its kernel has applied what is below the floor: without that its lease would be over for good.
#[test]
fn an_owner_that_is_back_is_told_anew_as_of_the_floor_that_was_raised() {
    let world = cut_and_back();
    let told = &world.told["n1"];
    assert_eq!(told.addresses.len(), 1);
    assert!(told.epoch > floor(&world, "n1"), "{told:?}");
}

#[test]
fn what_confirms_a_release_that_was_taken_back_moves_nothing() {
    let mut world = owned_by_n1();
    world.mute.insert("n1".to_owned());
    world.cut("n1");
    let released = world.told["n1"].epoch;
    world.set_state("n1", State::Available);
    let now = world.now;
    world.planner.handle_report(now, "n1", released, 0, &[]);
    world.pass(2 * OVER);
    assert_eq!(world.owner().as_deref(), Some("n1"));
    assert_eq!(world.moves(), []);
}

/// Somebody else may have been told by then, for all that the agent knows.
#[test]
fn a_release_that_was_confirmed_is_not_taken_back() {
    let mut world = owned_by_n1();
    world.cut("n1");
    let (now, released) = (world.now, world.told["n1"].epoch);
    world.planner.handle_report(now, "n1", released, 0, &[]);
    world.set_state("n1", State::Available);
    assert_eq!(world.moves().len(), 1);
    assert_eq!(aborted(&world), 0);
}

#[test]
fn a_drain_that_ends_before_the_agent_has_released_moves_nothing() {
    let mut world = owned_by_n1();
    world.mute.insert("n1".to_owned());
    world.drain("n1");
    world.undrain("n1");
    world.mute.clear();
    world.confirm("n1");
    world.run();
    assert_eq!(world.owner().as_deref(), Some("n1"));
    assert_eq!(world.moves(), []);
}

#[test]
fn a_move_whose_cause_lasts_is_not_aborted() {
    let mut world = owned_by_n1();
    world.mute.insert("n1".to_owned());
    world.select("n1", false);
    world.pass(MS);
    assert_eq!(world.told["n1"].addresses, []);
    assert_eq!(aborted(&world), 0);
    world.mute.clear();
    world.confirm("n1");
    world.run();
    assert_eq!(world.owner().as_deref(), Some("n2"));
}

#[test]
fn an_owner_that_is_cut_off_again_is_waited_for_anew() {
    let mut world = cut_and_back();
    world.cut("n1");
    world.pass(OVER - MS);
    assert_eq!(world.owner().as_deref(), Some("n1"));
    world.pass(MS);
    assert_eq!(world.owner().as_deref(), Some("n2"));
}

#[test]
fn an_owner_that_falls_too_often_is_not_spared() {
    let mut world = owned_by_n1();
    for _ in 0..SETTINGS.damping.count {
        world.cut("n1");
        world.mute.insert("n1".to_owned());
        world.set_state("n1", State::Available);
        world.mute.clear();
    }
    world.pass(OVER);
    assert_eq!(world.owner().as_deref(), Some("n2"));
    assert_eq!(aborted(&world), 2);
}

/// Nobody can tell it what it has to apply before its lease is extended again: it would serve nobody.
#[test]
fn a_node_that_comes_back_without_its_agent_loses_the_address_all_the_same() {
    let mut world = owned_by_n1();
    world.mute.insert("n1".to_owned());
    world.cut("n1");
    world.set_state("n1", State::Unavailable);
    world.pass(OVER);
    assert_eq!(world.owner().as_deref(), Some("n2"));
}

#[test]
fn so_does_one_whose_agent_is_silent_again_before_it_could_be_told() {
    let mut world = owned_by_n1();
    world.mute.insert("n1".to_owned());
    world.cut("n1");
    world.set_state("n1", State::Available);
    assert_eq!(aborted(&world), 1);
    world.set_state("n1", State::Unavailable);
    world.pass(OVER);
    assert_eq!(world.owner().as_deref(), Some("n2"));
}

#[test]
fn so_does_one_whose_agent_is_silent_when_the_next_controller_begins() {
    let mut world = owned_by_n1();
    world.mute.insert("n1".to_owned());
    world.cut("n1");
    world.observe("n1", State::Unavailable);
    world.restart(FENCED, vec![gateway("gw", POOL)]);
    world.pass(OVER);
    assert_eq!(world.owner().as_deref(), Some("n2"));
}

/// It has applied what it was told, and its lease is extended.
#[test]
fn an_owner_that_was_back_and_whose_agent_dies_then_keeps_its_address() {
    let mut world = cut_and_back();
    world.set_state("n1", State::Unavailable);
    world.pass(2 * OVER);
    assert_eq!(world.owner().as_deref(), Some("n1"));
    assert_eq!(world.moves(), []);
}

#[test]
fn a_move_that_the_last_controller_began_is_aborted_too() {
    let mut world = owned_by_n1();
    world.mute.insert("n1".to_owned());
    world.cut("n1");
    world.observe("n1", State::Available);
    world.restart(FENCED, vec![gateway("gw", POOL)]);
    world.mute.clear();
    world.confirm("n1");
    world.run();
    world.pass(2 * OVER);
    assert_eq!(world.owner().as_deref(), Some("n1"));
    assert_eq!(world.moves(), []);
}

#[test]
fn nothing_is_safe_while_the_controller_suspects_itself() {
    let mut world = World::with(FENCED, 4, POOL);
    let owner = world.owner();
    for node in ["n1", "n2", "n3", "n4"] {
        world.observe(node, State::Unreachable);
    }
    world.run();
    world.pass(2 * OVER);
    assert_eq!(world.owner(), owner);
    assert_eq!(world.moves(), []);
}

#[test]
fn a_new_controller_waits_for_what_the_last_one_may_have_extended() {
    let mut world = owned_by_n1();
    world.observe("n1", State::Unreachable);
    world.echoed.clear();
    world.restart(FENCED, vec![gateway("gw", POOL)]);
    world.pass(OVER - MS);
    assert_eq!(world.owner().as_deref(), Some("n1"));
    world.pass(MS);
    assert_eq!(world.owner().as_deref(), Some("n2"));
}

#[test]
fn a_floor_that_was_raised_stays_raised_after_a_restart() {
    let mut world = owned_by_n1();
    world.drain("n1");
    let raised = floor(&world, "n1");
    world.restart(FENCED, vec![gateway("gw", POOL)]);
    assert_eq!(floor(&world, "n1"), raised);
}

#[test]
fn a_node_that_is_deleted_is_waited_for_too() {
    let mut world = owned_by_n1();
    world.mute.insert("n1".to_owned());
    world.set_nodes(["n2".to_owned()]);
    world.run();
    assert_eq!(world.owner().as_deref(), Some("n1"));
    world.pass(OVER);
    assert_eq!(world.owner().as_deref(), Some("n2"));
}

#[test]
fn what_a_move_waits_for_is_explained() {
    let mut world = owned_by_n1();
    world.cut("n1");
    let why = world.explain("10.0.0.1");
    assert!(why.contains("its lease may last for 5.1 s more"), "{why}");
}
