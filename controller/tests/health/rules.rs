//! The table: each state and what each outcome of a probe makes of it.

use controller::health::{Output, Reason, State};

use crate::world::{SETTINGS, World, seconds};

use State::{Available, Unavailable, Unknown, Unreachable};

#[derive(Clone, Copy, Debug)]
enum Event {
    Ok,
    AgentSilent,
    /// No reply, so many seconds after the last.
    NoReply(u64),
    /// The probe was given up for the prober's own reasons, so many seconds after the last reply.
    Cancelled(u64),
}

fn apply(world: &mut World, event: Event) {
    match event {
        Event::Ok => world.reply(true),
        Event::AgentSilent => world.reply(false),
        Event::NoReply(silence) => {
            world.pass(seconds(silence));
            world.no_reply();
        }
        Event::Cancelled(silence) => {
            world.pass(seconds(silence));
            world.excused_round(seconds(silence));
        }
    }
}

#[test]
fn every_outcome_in_every_state_gives_the_state_of_the_table() {
    let table = [
        (Unknown, Event::Ok, Available),
        (Unknown, Event::AgentSilent, Unreachable),
        (Unknown, Event::NoReply(59), Unknown),
        (Unknown, Event::NoReply(60), Unknown),
        (Unknown, Event::NoReply(61), Unreachable),
        (Unknown, Event::Cancelled(120), Unknown),
        (Available, Event::Ok, Available),
        (Available, Event::AgentSilent, Unavailable),
        (Available, Event::NoReply(0), Available),
        (Available, Event::NoReply(60), Available),
        (Available, Event::NoReply(120), Unreachable),
        (Available, Event::Cancelled(120), Available),
        (Unavailable, Event::Ok, Available),
        (Unavailable, Event::AgentSilent, Unavailable),
        (Unavailable, Event::NoReply(60), Unavailable),
        (Unavailable, Event::NoReply(120), Unreachable),
        (Unavailable, Event::Cancelled(120), Unavailable),
        (Unreachable, Event::Ok, Available),
        (Unreachable, Event::AgentSilent, Unreachable),
        (Unreachable, Event::NoReply(0), Unreachable),
        (Unreachable, Event::NoReply(120), Unreachable),
        (Unreachable, Event::Cancelled(120), Unreachable),
    ];
    for (before, event, after) in table {
        let mut world = World::in_state(before);
        apply(&mut world, event);
        assert_eq!(world.state(), after, "{before} + {event:?}");
    }
}

#[test]
fn each_transition_is_reported_once_with_its_cause() {
    let mut world = World::with(SETTINGS);
    world.pass(seconds(1));
    let replied = world.now;
    world.reply(true);
    world.reply(true);
    world.pass(seconds(70));
    world.no_reply();
    world.no_reply();
    let reported: Vec<_> = world
        .outputs()
        .into_iter()
        .map(|output| match output {
            Output::Changed {
                from,
                to,
                silence,
                heard,
                ..
            } => (from, to.state, to.reason, silence, heard),
            other => panic!("unexpected: {other:?}"),
        })
        .collect();
    assert_eq!(
        reported,
        [
            (
                Unknown,
                Available,
                Reason::AgentUp,
                seconds(1),
                Some(replied)
            ),
            (
                Available,
                Unreachable,
                Reason::NoReply,
                seconds(70),
                Some(replied)
            ),
        ]
    );
}

#[test]
fn an_unreachable_node_that_answers_again_without_its_agent_says_so() {
    let mut world = World::in_state(Unreachable);
    world.reply(false);
    assert_eq!(
        world.health.node(crate::world::NODE).unwrap().reason(),
        Reason::AgentSilent
    );
}

#[test]
fn silence_counts_from_the_last_reply_of_any_kind() {
    let mut world = World::in_state(Unavailable);
    for _ in 0..3600 {
        world.pass(seconds(1));
        world.reply(false);
    }
    world.pass(seconds(1));
    world.no_reply();
    assert_eq!(
        world.state(),
        Unavailable,
        "one lost probe after an hour without the agent"
    );
}

#[test]
fn silence_counts_from_the_beginning_of_monitoring_when_nothing_was_ever_heard() {
    let mut world = World::with(SETTINGS);
    for _ in 0..60 {
        world.pass(seconds(1));
        world.no_reply();
        assert_eq!(world.state(), Unknown);
    }
    world.pass(seconds(1));
    world.no_reply();
    assert_eq!(world.state(), Unreachable);
}

#[test]
fn time_in_which_the_prober_did_not_probe_is_not_the_nodes_silence() {
    let mut world = World::in_state(Available);
    world.pass(seconds(1000));
    world.excused_round(seconds(999));
    assert_eq!(world.state(), Available);
    world.pass(seconds(59));
    world.no_reply();
    assert_eq!(world.state(), Available, "1 + 59 s of silence of its own");
    world.pass(seconds(1));
    world.no_reply();
    assert_eq!(world.state(), Unreachable);
}

#[test]
fn excused_time_does_not_outlast_the_next_reply() {
    let mut world = World::in_state(Available);
    world.pass(seconds(1000));
    world.excused_round(seconds(1000));
    world.reply(true);
    world.pass(seconds(61));
    world.no_reply();
    assert_eq!(world.state(), Unreachable);
}

#[test]
fn a_reply_that_is_read_late_counts_from_when_it_arrived() {
    let mut world = World::in_state(Available);
    let arrived = world.now + seconds(10);
    world.pass(seconds(70));
    world.health.handle_reply(
        crate::world::NODE,
        controller::health::Heard {
            at: arrived,
            agent_up: true,
            incarnation: 7,
        },
    );
    world.no_reply();
    assert_eq!(world.state(), Available, "60 s since it arrived");
    world.pass(seconds(1));
    world.no_reply();
    assert_eq!(world.state(), Unreachable);
}

#[test]
fn a_reply_that_another_overtook_is_a_sign_of_life_and_says_nothing_of_the_agent() {
    let mut world = World::in_state(Unavailable);
    world.pass(seconds(50));
    world
        .health
        .handle_stale_reply(crate::world::NODE, world.now);
    world.pass(seconds(60));
    world.no_reply();
    assert_eq!(world.state(), Unavailable);
}

#[test]
fn a_reply_that_arrived_before_another_makes_no_silence() {
    let mut world = World::in_state(Available);
    let earlier = world.now;
    world.pass(seconds(10));
    world.reply(true);
    world.health.handle_stale_reply(crate::world::NODE, earlier);
    world.pass(seconds(60));
    world.no_reply();
    assert_eq!(world.state(), Available);
}
