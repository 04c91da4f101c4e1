//! When probes are sent, and what is not held against the nodes.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::world::{MS, PERIOD, World};
use crate::session::{Event, TargetId};

fn rounds(world: &mut World) -> Vec<(TargetId, Instant, Duration)> {
    let round = |event| match event {
        Event::Round {
            target,
            due,
            excused,
        } => Some((target, due, excused)),
        _ => None,
    };
    world.events().into_iter().filter_map(round).collect()
}

fn nodes(count: u32) -> World {
    let mut world = World::new();
    for id in 0..count {
        world.insert(id, &[&format!("10.0.{}.{}", id / 250, id % 250 + 1)]);
    }
    world
}

#[test]
fn every_address_of_a_target_is_probed_in_each_round() {
    let mut world = World::new();
    world.insert(1, &["10.0.0.1", "fd00::1"]);
    for _ in 0..3 {
        let probes = world.next_round();
        let to = probes
            .iter()
            .map(|probe| probe.to.to_string())
            .collect::<Vec<_>>();
        assert_eq!(to, ["10.0.0.1:862", "[fd00::1]:862"]);
        assert_ne!(probes[0].sequence, probes[1].sequence);
    }
}

#[test]
fn a_target_without_addresses_has_rounds_and_is_not_excused() {
    let mut world = World::new();
    world.insert(1, &[]);
    for _ in 0..3 {
        assert!(world.next_round().is_empty());
    }
    assert!(
        rounds(&mut world)
            .iter()
            .all(|(_, _, excused)| excused.is_zero())
    );
}

#[test]
fn the_first_target_is_probed_at_once() {
    let mut world = nodes(1);
    assert_eq!(world.advance(Duration::ZERO).len(), 1);
}

#[test]
fn phases_are_spread_over_the_period() {
    for count in [2, 3, 10, 100, 1000] {
        let mut world = nodes(count);
        world.advance(PERIOD - Duration::from_nanos(1));
        let mut due = rounds(&mut world)
            .iter()
            .map(|(_, due, _)| *due - world.start)
            .collect::<Vec<_>>();
        due.sort();
        assert_eq!(due.len(), count as usize);
        due.push(due[0] + PERIOD);
        let widest = due.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
        assert!(
            widest < PERIOD * 27 / 10 / count,
            "{count} targets, {widest:?} apart"
        );
    }
}

#[test]
fn phases_stay_when_targets_come_and_go() {
    let mut world = nodes(10);
    let phase = |world: &World, due: Instant| (due - world.start).as_nanos() % PERIOD.as_nanos();
    world.advance(PERIOD - MS);
    let before = rounds(&mut world);
    for id in [2, 5, 7] {
        world.prober.remove(TargetId(id));
    }
    world.insert(1, &["10.9.9.9"]);
    world.insert(20, &["10.0.9.1"]);
    world.advance(PERIOD);
    let after = rounds(&mut world)
        .into_iter()
        .map(|(target, due, _)| (target, phase(&world, due)))
        .collect::<HashMap<_, _>>();
    assert_eq!(after.len(), 8);
    for (target, due, _) in before
        .into_iter()
        .filter(|(id, ..)| ![2, 5, 7].contains(&id.0))
    {
        assert_eq!(after[&target], phase(&world, due), "{target:?}");
    }
}

#[test]
fn a_new_target_takes_over_the_phase_that_has_become_free() {
    let mut world = nodes(3);
    world.advance(PERIOD - MS);
    let before = rounds(&mut world);
    world.prober.remove(TargetId(1));
    world.insert(9, &["10.0.9.9"]);
    world.advance(PERIOD);
    let after = rounds(&mut world);
    let due = |rounds: &[(TargetId, Instant, Duration)], id| {
        rounds
            .iter()
            .find(|round| round.0 == TargetId(id))
            .unwrap()
            .1
    };
    assert_eq!(due(&after, 9), due(&before, 1) + PERIOD);
}

#[test]
fn a_round_late_by_less_than_a_period_keeps_its_phase() {
    let mut world = nodes(1);
    world.advance(Duration::ZERO);
    world.advance(PERIOD + 99 * MS);
    world.advance(MS);
    let due = rounds(&mut world)
        .iter()
        .map(|(_, due, _)| *due - world.start)
        .collect::<Vec<_>>();
    assert_eq!(due, [Duration::ZERO, PERIOD, 2 * PERIOD]);
    assert_eq!(world.stats().lag.max, 99 * MS);
    assert_eq!(world.stats().excused, Duration::ZERO);
}

#[test]
fn rounds_missed_by_a_period_or_more_are_skipped_and_excused() {
    let mut world = nodes(1);
    world.advance(Duration::ZERO);
    rounds(&mut world);
    assert!(
        world.advance(PERIOD * 4 + PERIOD / 2).is_empty(),
        "no round at once"
    );
    assert_eq!(world.advance(PERIOD / 2).len(), 1);
    assert_eq!(
        rounds(&mut world),
        [(TargetId(0), world.start + 5 * PERIOD, 4 * PERIOD)],
        "the rounds due at 1, 2, 3 and 4 periods"
    );
    assert_eq!(world.stats().skipped_rounds, 4);
}

#[test]
fn a_prober_that_was_held_up_does_not_burst() {
    let mut world = nodes(1000);
    world.advance(PERIOD);
    assert!(world.advance(20 * PERIOD).is_empty());
    let most = (0..100).map(|_| world.advance(MS).len()).max().unwrap();
    assert!(
        most <= 13,
        "{most} probes in a hundredth of the period, of 1000"
    );
}

#[test]
fn a_round_of_which_nothing_left_the_host_is_excused() {
    let mut world = World::new();
    world.insert(1, &["10.0.0.1", "fd00::1"]);
    for probe in world.next_round() {
        world.prober.handle_refused(probe.target, probe.sequence);
    }
    world.next_round();
    world.next_round();
    let excused = rounds(&mut world)
        .into_iter()
        .map(|round| round.2)
        .collect::<Vec<_>>();
    assert_eq!(excused, [Duration::ZERO, PERIOD, Duration::ZERO]);
    assert_eq!(world.stats().refused, 2);
}

#[test]
fn a_round_of_which_one_probe_left_is_not_excused() {
    let mut world = World::new();
    world.insert(1, &["10.0.0.1", "fd00::1"]);
    let probes = world.next_round();
    world.prober.handle_refused(TargetId(1), probes[0].sequence);
    world.prober.handle_refused(TargetId(1), probes[0].sequence);
    world.next_round();
    assert_eq!(
        (world.stats().excused, world.stats().refused),
        (Duration::ZERO, 1)
    );
}

#[test]
fn a_refusal_is_counted_against_its_own_round_only() {
    let mut world = nodes(1);
    let earlier = world.next_round();
    world.next_round();
    world
        .prober
        .handle_refused(TargetId(0), earlier[0].sequence);
    world.next_round();
    assert_eq!(world.stats().excused, Duration::ZERO);
}

#[test]
fn probes_that_nobody_took_are_dropped_and_the_round_excused() {
    let mut world = nodes(1);
    world.prober.poll(world.now);
    let probes = world.next_round();
    assert_eq!(probes.len(), 1, "only the present round's");
    assert_eq!(world.stats().excused, PERIOD);
}

#[test]
fn refused_probes_are_not_lost() {
    let mut world = nodes(1);
    for _ in 0..8 {
        for probe in world.next_round() {
            world.prober.handle_refused(probe.target, probe.sequence);
        }
    }
    assert_eq!((world.stats().lost, world.stats().refused), (0, 8));
}

#[test]
fn a_silent_nodes_probes_are_lost_one_by_one() {
    let mut world = nodes(1);
    let sequences = (0..6)
        .map(|_| world.next_round()[0].sequence)
        .collect::<Vec<_>>();
    let lost = world
        .events()
        .into_iter()
        .filter_map(|event| match event {
            Event::Lost { sequence, .. } => Some(sequence),
            _ => None,
        })
        .collect::<Vec<_>>();
    // The window is two and a half periods.
    assert_eq!(lost, sequences[..3]);
}

proptest! {
    #[test]
    fn excused_time_is_exactly_that_of_the_skipped_rounds(
        steps in prop::collection::vec(0..450_u32, 1..60),
        count in 1..20_u32,
    ) {
        let mut world = nodes(count);
        let mut last: HashMap<TargetId, Instant> = HashMap::new();
        let mut excused_in_all = Duration::ZERO;
        for step in steps {
            world.advance(step * MS);
            for (target, due, excused) in rounds(&mut world) {
                prop_assert!(due <= world.now && world.now - due < PERIOD);
                if let Some(last) = last.insert(target, due) {
                    prop_assert_eq!(due - last, PERIOD + excused);
                }
                excused_in_all += excused;
            }
        }
        prop_assert_eq!(world.stats().excused, excused_in_all);
        prop_assert!(excused_in_all <= PERIOD * world.stats().skipped_rounds as u32);
    }
}

#[test]
fn a_round_that_is_asked_for_comes_at_once_and_the_others_when_they_would_have_come() {
    let mut world = nodes(3);
    let due = world.prober.next_wake();
    world.prober.probe_now(world.now, TargetId(2));
    assert_eq!(world.prober.next_wake(), due);
    let probes = world.advance(Duration::ZERO);
    let asked = probes.iter().filter(|probe| probe.target == TargetId(2));
    assert_eq!(asked.count(), 1);
    let reply = world.reply(&probes[0]);
    world.deliver(&reply);
    assert_eq!(world.answered().len(), 1);
    world.prober.probe_now(world.now, TargetId(9));
    assert!(world.advance(Duration::ZERO).is_empty(), "there is none");
}
