//! Nothing is told before it is recorded.

use controller::failover::Output;
use controller::health::State;

use crate::world::{SETTINGS, World};

#[test]
fn no_agent_is_told_before_the_record_is_durable() {
    let mut world = World::with(SETTINGS, 2, &["10.78.0.100"]);
    let (owner, told) = (world.owner().unwrap(), world.told.clone());
    world.disk_is_stuck = true;
    world.cut(&owner);
    assert_ne!(world.owner(), Some(owner));
    assert_eq!(world.told, told);
    assert!(world.planner.view(world.now.instant).failover.recording);
}

#[test]
fn nothing_else_is_decided_meanwhile() {
    let mut world = World::with(SETTINGS, 3, &["10.78.0.100"]);
    world.disk_is_stuck = true;
    let first = world.owner().unwrap();
    world.cut(&first);
    let second = world.owner().unwrap();
    world.set_state(&second, State::Unreachable);
    assert_eq!(world.owner(), Some(second));
    assert_eq!(world.planner.poll_output(), None);
}

#[test]
fn what_is_told_has_the_epoch_that_was_recorded() {
    let mut world = World::with(SETTINGS, 2, &["10.78.0.100"]);
    let owner = world.owner().unwrap();
    world.observe(&owner, State::Unreachable);
    world.planner.poll(world.now);
    let Some(Output::Record(record)) = world.planner.poll_output() else {
        panic!("no record");
    };
    // What happens meanwhile waits for the next record.
    world.select(&owner, false);
    world.planner.handle_recorded(world.now, record.version);
    while let Some(output) = world.planner.poll_output() {
        if let Output::Apply { node, desired } = output {
            assert_eq!(record.epochs[&*node], desired.epoch, "{node}");
        }
    }
}

#[test]
fn a_drain_is_recorded() {
    let mut world = World::with(SETTINGS, 2, &["10.78.0.100"]);
    let version = world.planner.drain("n1").unwrap();
    world.run();
    assert!(world.planner.recorded_version() >= version);
    assert!(world.record.as_ref().unwrap().drained.contains("n1"));
    world.undrain("n1");
    assert!(world.record.unwrap().drained.is_empty());
}

#[test]
fn an_unknown_node_cannot_be_drained() {
    let mut world = World::with(SETTINGS, 2, &["10.78.0.100"]);
    assert_eq!(world.planner.drain("n9"), None);
}
