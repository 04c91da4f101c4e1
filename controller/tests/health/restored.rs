//! What a controller that starts makes of what an earlier one recorded.

use controller::health::{Output, Recorded, State};

use crate::world::{NODE, SETTINGS, World, recorded, seconds};

use State::{Available, Unavailable, Unknown, Unreachable};

#[test]
fn a_restored_state_holds_until_something_is_known() {
    for state in [Available, Unavailable, Unreachable] {
        let mut world = World::restored(state);
        assert_eq!(world.state(), state);
        world.pass(seconds(60));
        world.no_reply();
        assert_eq!(world.state(), state);
        assert_eq!(world.outputs(), [], "restoring is no transition");
    }
}

#[test]
fn a_restored_node_that_stays_silent_has_the_whole_timeout() {
    let mut world = World::restored(Unavailable);
    world.pass(seconds(61));
    world.no_reply();
    assert_eq!(world.state(), Unreachable);
}

#[test]
fn an_unchanged_incarnation_goes_on_from_the_restored_state() {
    let table = [
        (Available, true, Available),
        (Available, false, Unavailable),
        (Unavailable, true, Available),
        (Unavailable, false, Unavailable),
        (Unreachable, true, Available),
        (Unreachable, false, Unreachable),
    ];
    for (before, agent_up, after) in table {
        let mut world = World::restored(before);
        world.reply(agent_up);
        assert_eq!(world.state(), after, "{before}, agent up: {agent_up}");
    }
}

#[test]
fn a_restored_state_of_another_incarnation_counts_as_unknown() {
    let table = [
        (Available, true, Available),
        (Available, false, Unreachable),
        (Unavailable, true, Available),
        (Unavailable, false, Unreachable),
        (Unreachable, true, Available),
        (Unreachable, false, Unreachable),
        (Unknown, false, Unreachable),
    ];
    for (before, agent_up, after) in table {
        let mut world = World::restored(before);
        world.reply_as(agent_up, 8);
        assert_eq!(world.state(), after, "{before}, agent up: {agent_up}");
    }
}

#[test]
fn a_restored_state_without_an_incarnation_counts_as_unknown() {
    let mut world = World::empty(SETTINGS);
    let restored = Recorded {
        incarnation: None,
        ..recorded(Unavailable)
    };
    world.health.begin(world.now, NODE, true, Some(restored));
    world.reply(false);
    assert_eq!(world.state(), Unreachable);
}

#[test]
fn only_the_first_reply_is_compared_with_the_recorded_incarnation() {
    let mut world = World::restored(Unavailable);
    world.reply(false);
    world.reply_as(false, 8);
    assert_eq!(world.state(), Unavailable, "the table holds from then on");
}

#[test]
fn a_changed_incarnation_is_reported_once() {
    let mut world = World::in_state(Available);
    world.reply_as(true, 8);
    world.reply_as(true, 8);
    assert_eq!(
        world.outputs(),
        [Output::Reincarnated {
            node: NODE,
            from: 7,
            to: 8
        }]
    );
    assert_eq!(world.state(), Available);
}

#[test]
fn a_first_incarnation_is_no_change_of_incarnation() {
    let mut world = World::with(SETTINGS);
    world.reply(true);
    assert!(
        !world
            .outputs()
            .iter()
            .any(|o| matches!(o, Output::Reincarnated { .. }))
    );
}
