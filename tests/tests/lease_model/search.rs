//! Seeded random search: long schedules of random actions, each kind as often as the schedule's weather says.
//! A seed fixes everything, so a failing one replays exactly.

use std::ops::Range;

use crate::{
    rules::Rules,
    schedule::Schedule,
    setup::Setup,
    world::{Action, TwoOwners},
};

/// Splitmix64: the schedules of a seed stay the same whatever crate changes its generator.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `limit`.
    pub(crate) const fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// An index below `limit`.
    pub(crate) const fn index(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// True `percent` times out of a hundred.
    pub(crate) const fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// What happens in a schedule beside probes, votes, moves, and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Letters that stay on their way.
    Delay,
    /// Paths that are cut, in one direction or in both.
    Partition,
    /// Processes that stand still for a while.
    Freeze,
    AgentRestart,
    Reboot,
    MemoryLoss,
    ControllerRestart,
    /// Another controller is elected.
    Election,
    /// Moves are aborted.
    Abort,
    /// Witnesses are replaced, added and removed, and L changes.
    Change,
}

impl Fault {
    /// All of them.
    pub(crate) const ALL: &'static [Self] = &[
        Self::Delay,
        Self::Partition,
        Self::Freeze,
        Self::AgentRestart,
        Self::Reboot,
        Self::MemoryLoss,
        Self::ControllerRestart,
        Self::Election,
        Self::Abort,
        Self::Change,
    ];
}

/// A random search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search<'a> {
    pub(crate) setup: Setup,
    pub(crate) rules: Rules,
    pub(crate) faults: &'a [Fault],
    /// How every schedule begins.
    pub(crate) opening: &'a [Opening],
    /// Actions per schedule, at most.
    pub(crate) length: usize,
}

/// A step of an opening. One that the rules forbid does not happen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Opening {
    /// It happens, and so does all that follows from it.
    Do(Action),
    /// It happens; the letters that it sends stay on their way.
    Only(Action),
}

/// A schedule after which two nodes pass one address.
#[derive(Debug)]
pub(crate) struct Violation {
    pub(crate) seed: u64,
    pub(crate) owners: TwoOwners,
    /// What happened, line by line.
    pub(crate) schedule: String,
}

impl Search<'_> {
    /// Runs schedules until one violates the invariant. `steps` counts actions that happened.
    pub(crate) fn run(&self, seeds: Range<u64>, steps: &mut u64) -> Option<Violation> {
        seeds.into_iter().find_map(|seed| {
            let found = Schedule::new(*self, seed).run(steps)?;
            let mut again = Schedule::new(*self, seed).logged();
            let owners = again.run(&mut 0).expect("a seed replays exactly");
            assert_eq!(owners, found, "a seed replays exactly");
            Some(Violation {
                seed,
                owners,
                schedule: again.into_log(),
            })
        })
    }
}

/// The seeds of a search: so many, unless the environment says otherwise.
pub(crate) fn seeds(count: u64) -> Range<u64> {
    pulsepath_tests::seeds("PULSEPATH_MODEL_SEEDS", count)
}
