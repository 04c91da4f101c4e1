//! What a stored floor promises.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::world::{MS, PERIOD, Vote, World, node};
use crate::channel::Watched;
use crate::witness::DutyError;

#[test]
fn a_raised_floor_is_named_by_the_next_vote_and_never_sinks() {
    let mut world = World::new();
    world.watch(vec![world.watched(1, 5)]);
    world.round();
    world.watch(vec![world.watched(1, 6)]);
    assert_eq!(world.round()[0].floor, 6);
    world.watch(vec![world.watched(1, 5)]);
    assert_eq!(world.round()[0].floor, 6);
    assert_eq!(world.heard(1).unwrap().floor, 6);
}

#[test]
fn a_floor_that_is_not_stored_is_neither_voted_under_nor_reported() {
    let mut world = World::new();
    world.floors.is_full = true;
    world.restart();
    let error = world.try_watch(vec![world.watched(1, 5)]).unwrap_err();
    assert!(matches!(error, DutyError::NotStored { .. }), "{error}");
    assert!(world.witness.duty().is_none());
}

#[test]
fn the_newest_vote_under_a_lower_floor_is_reported_whatever_is_voted_since() {
    let mut world = World::new();
    world.watch(vec![world.watched(1, 5)]);
    world.round();
    let below = world.round()[0].echoed;
    assert_eq!(
        world.heard(1).unwrap().voted_ago,
        None,
        "all were under this floor"
    );
    world.watch(vec![world.watched(1, 6)]);
    for _ in 0..3 {
        assert_eq!(world.round().len(), 1);
        let ago = world.now - below;
        assert_eq!(world.heard(1).unwrap().voted_ago, Some(ago));
    }
}

#[test]
fn a_new_witness_has_never_voted_and_one_that_is_restarted_says_when_it_began() {
    let mut world = World::new();
    world.watch(vec![world.watched(1, 5)]);
    assert_eq!(world.heard(1).unwrap().voted_ago, None);
    world.restart();
    let began = world.now;
    world.round();
    let heard = world.heard(1).unwrap();
    assert_eq!(heard.voted_ago, Some(world.now - began));
    assert_eq!(heard.floor, 5);
}

#[test]
fn votes_are_not_forgotten_with_the_node() {
    let mut world = World::new();
    world.watch(vec![world.watched(1, 5)]);
    world.round();
    let below = world.round()[0].echoed;
    world.watch(Vec::new());
    world.round();
    world.watch(vec![world.watched(1, 6)]);
    assert_eq!(world.heard(1).unwrap().voted_ago, Some(world.now - below));
}

/// Something that may happen.
#[derive(Clone, Copy, Debug)]
enum Happening {
    Raise {
        id: u8,
        by: u64,
    },
    Leave {
        id: u8,
    },
    /// The nodes swap their addresses.
    Swap,
    Repace {
        millis: u64,
    },
    Round {
        answered: bool,
    },
    Restart,
}

fn happening() -> impl Strategy<Value = Happening> {
    let id = || 1..=2_u8;
    prop_oneof![
        3 => (id(), 0..3_u64).prop_map(|(id, by)| Happening::Raise { id, by }),
        1 => id().prop_map(|id| Happening::Leave { id }),
        1 => Just(Happening::Swap),
        1 => (10..200_u64).prop_map(|millis| Happening::Repace { millis }),
        6 => any::<bool>().prop_map(|answered| Happening::Round { answered }),
        1 => Just(Happening::Restart),
    ]
}

/// Two nodes, and every vote that was ever cast.
struct History {
    world: World,
    /// By node: the floor that it is told next; `None`: it is not watched.
    told: [Option<u64>; 3],
    is_swapped: bool,
    period: Duration,
    votes: Vec<(u8, Vote)>,
}

impl History {
    fn tell(&mut self) {
        let watched = (1..=2_u8).filter_map(|id| {
            let floor = self.told[usize::from(id)]?;
            let host = if self.is_swapped { 3 - id } else { id };
            Some(Watched {
                addresses: vec![[10, 77, 0, host].into()],
                ..self.world.watched(id, floor)
            })
        });
        let watched = watched.collect();
        let mut duty = self.world.duty(watched);
        duty.period = self.period;
        self.world.witness.take_on(self.world.now, &duty).unwrap();
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Raise { id, by } => {
                let floor = &mut self.told[usize::from(id)];
                *floor = Some(floor.unwrap_or(0) + by);
                self.tell();
            }
            Happening::Leave { id } => {
                self.told[usize::from(id)] = None;
                self.tell();
            }
            Happening::Swap => {
                self.is_swapped = !self.is_swapped;
                self.tell();
            }
            Happening::Repace { millis } => {
                self.period = MS * millis as u32;
                self.tell();
            }
            Happening::Round { answered } => {
                for probe in self.world.advance(self.period) {
                    let id = node(&probe);
                    self.votes
                        .extend(self.world.vote(&probe).map(|vote| (id, vote)));
                    if answered {
                        self.world.answer(&probe);
                    }
                }
            }
            Happening::Restart => self.world.restart(),
        }
    }

    /// What is reported covers every vote below the floor that is reported.
    fn check(&self) {
        for id in 1..=2 {
            let Some(heard) = self.world.heard(id) else {
                continue;
            };
            let said = heard.voted_ago.map(|ago| self.world.now - ago);
            let below = |it: &&(u8, Vote)| it.0 == id && it.1.floor < heard.floor;
            let votes = self.votes.iter().filter(below);
            let newest: Option<Instant> = votes.map(|it| it.1.echoed).max();
            assert!(newest <= said, "n{id}: {newest:?} is newer than {said:?}");
        }
    }
}

proptest! {
    #[test]
    fn no_vote_below_a_reported_floor_echoes_anything_newer_than_what_is_reported(
        happenings in prop::collection::vec(happening(), 1..60)
    ) {
        let mut history = History {
            world: World::new(),
            told: [None; 3],
            is_swapped: false,
            period: PERIOD,
            votes: Vec::new(),
        };
        for happening in happenings {
            let told_before: Vec<Vote> = history.votes.iter().map(|it| it.1).collect();
            history.happen(happening);
            history.check();
            // And no vote to come is below a floor that was reported.
            for id in 1..=2 {
                let Some(floor) = history.world.heard(id).map(|heard| heard.floor) else { continue };
                let fresh = history.votes.iter().skip(told_before.len());
                for (_, vote) in fresh.filter(|it| it.0 == id) {
                    prop_assert!(vote.floor >= floor);
                }
            }
        }
    }
}
