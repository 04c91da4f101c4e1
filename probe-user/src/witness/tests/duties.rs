//! What is probed and voted for.

use std::net::IpAddr;
use std::time::Duration;

use super::world::{INSTANCE, LEASE, MS, PERIOD, World};
use crate::channel::{Duty, Watched};
use crate::witness::DutyError;

#[test]
fn a_vote_names_the_witness_the_floor_and_the_lease_and_echoes_what_was_heard() {
    let mut world = World::new();
    world.watch(vec![world.watched(1, 5)]);
    for probe in world.advance(PERIOD) {
        assert_eq!(world.vote(&probe), None, "nothing was heard before");
    }
    world.round();
    let ago = world.heard(1).unwrap().heard_ago.unwrap();
    let heard = world.now - ago;
    let vote = world.round()[0];
    assert_eq!(
        (vote.instance, vote.floor, vote.lease_ms),
        (INSTANCE, 5, 700)
    );
    assert_eq!(vote.echoed, heard);
}

#[test]
fn nodes_that_are_only_to_be_heard_get_no_votes() {
    let mut world = World::new();
    let watched = Watched {
        vote: false,
        ..world.watched(1, 5)
    };
    world.watch(vec![watched]);
    world.round();
    assert_eq!(world.round(), []);
    let heard = world.heard(1).unwrap();
    assert!(heard.agent_up && heard.lease_held, "{heard:?}");
    assert_eq!((heard.floor, heard.incarnation), (5, 77));
    assert!(heard.heard_ago.is_some_and(|ago| ago <= PERIOD));
}

#[test]
fn what_the_duty_does_not_name_any_more_is_not_probed_any_more() {
    let mut world = World::new();
    world.watch(vec![world.watched(1, 0), world.watched(2, 0)]);
    world.round();
    world.watch(vec![world.watched(2, 0)]);
    assert_eq!(world.round().len(), 1);
    assert_eq!(world.heard(1), None);
    world.watch(Vec::new());
    assert!(world.advance(PERIOD * 2).is_empty());
}

#[test]
fn another_lease_time_is_asked_for_at_once() {
    let mut world = World::new();
    world.watch(vec![world.watched(1, 0)]);
    world.round();
    let longer = Duty {
        lease: LEASE * 2,
        ..world.duty(vec![world.watched(1, 0)])
    };
    world.witness.take_on(world.now, &longer).unwrap();
    // What was heard stays, also where it takes another prober.
    assert!(world.heard(1).unwrap().heard_ago.is_some());
    world.round();
    assert_eq!(world.round()[0].lease_ms, 1_400);
}

#[test]
fn nodes_may_swap_their_addresses() {
    let mut world = World::new();
    world.watch(vec![world.watched(1, 0), world.watched(2, 0)]);
    let at = |id: u8, watched: Watched| Watched {
        addresses: vec![IpAddr::from([10, 77, 0, id])],
        ..watched
    };
    world.watch(vec![at(2, world.watched(1, 0)), at(1, world.watched(2, 0))]);
    assert_eq!(world.witness.not_probed().count(), 0);
    assert_eq!(world.probed(), [1, 2]);
}

#[test]
fn a_node_whose_address_is_anothers_is_named_and_the_rest_is_probed() {
    let mut world = World::new();
    let twin = Watched {
        addresses: world.watched(1, 0).addresses,
        ..world.watched(2, 0)
    };
    world.watch(vec![world.watched(1, 0), twin, world.watched(3, 0)]);
    let refused: Vec<_> = world
        .witness
        .not_probed()
        .map(|it| it.0.to_owned())
        .collect();
    assert_eq!(refused, ["n2"]);
    assert_eq!(world.probed(), [1, 3]);
    // As soon as the address is free.
    let twin = Watched {
        addresses: world.watched(1, 0).addresses,
        ..world.watched(2, 0)
    };
    world.watch(vec![twin]);
    assert_eq!(world.witness.not_probed().count(), 0);
}

#[test]
fn a_duty_that_names_no_instance_changes_nothing() {
    let mut world = World::new();
    world.watch(vec![world.watched(1, 0)]);
    let whichever = Duty {
        instance: None,
        ..world.duty(Vec::new())
    };
    world.witness.take_on(world.now, &whichever).unwrap();
    assert!(world.heard(1).is_some());
}

#[test]
fn stale_and_senseless_duties_are_refused_and_change_nothing() {
    let mut world = World::new();
    let older = world.duty(Vec::new());
    world.watch(vec![world.watched(1, 0)]);
    let error = world.witness.take_on(world.now, &older).unwrap_err();
    assert!(matches!(error, DutyError::Older { .. }), "{error}");
    let other = Duty {
        instance: Some(INSTANCE + 1),
        ..world.duty(vec![world.watched(1, 3)])
    };
    let error = world.witness.take_on(world.now, &other).unwrap_err();
    assert!(matches!(error, DutyError::OtherInstance { .. }), "{error}");
    let error = world.try_watch(vec![world.watched(9, 0)]).unwrap_err();
    assert!(matches!(error, DutyError::Itself { .. }), "{error}");
    assert_eq!(world.heard(1).unwrap().floor, 0);
}

#[test]
fn a_duty_that_comes_again_disturbs_nothing() {
    let mut world = World::new();
    let duty = world.duty(vec![world.watched(1, 0)]);
    world.witness.take_on(world.now, &duty).unwrap();
    world.round();
    let probes = world.advance(PERIOD);
    world.witness.take_on(world.now, &duty).unwrap();
    world.now += MS;
    // The probe that is on its way is still expected.
    world.answer(&probes[0]);
    assert_eq!(world.heard(1).unwrap().heard_ago, Some(Duration::ZERO));
}
