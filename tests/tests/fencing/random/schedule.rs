//! What goes wrong when.

use std::time::Duration;

use pulsepath_tests::Direction;
use pulsepath_tests::fencing::{Fault, Stop};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};

/// The candidates; the controller is on the node after them.
pub(super) const CANDIDATES: [u8; 3] = [1, 2, 3];
pub(super) const CONTROLLER: u8 = 4;

/// When the last fault begins at the latest, ms.
const BEGINS: u64 = 3_000;
/// How long a fault lasts, ms: from less than it takes to notice to more than it takes to move.
const LASTS: std::ops::Range<u64> = 100..3_500;

/// What cannot go wrong in two ways at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Network(u8),
    Agent(u8),
    /// The nodes of a part, together.
    Part,
    /// Whoever drains needs it.
    Controller,
}

/// A fault, and its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) fault: Fault,
    pub(super) begins: Duration,
    pub(super) ends: Duration,
}

/// What goes wrong, and when.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    pub(super) seed: u64,
    pub(super) steps: Vec<Step>,
}

impl Schedule {
    /// The same for the same seed.
    pub(super) fn of(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let count = rng.random_range(2..=5);
        let mut steps: Vec<Step> = Vec::new();
        while steps.len() < count {
            let fault = any_fault(&mut rng);
            let begins = rng.random_range(0..BEGINS);
            let ends = begins + rng.random_range(LASTS);
            let known = |step: &Step| subject(step.fault) == subject(fault);
            if !steps.iter().any(known) {
                steps.push(Step {
                    fault,
                    begins: Duration::from_millis(begins),
                    ends: Duration::from_millis(ends),
                });
            }
        }
        Self { seed, steps }
    }

    /// How often the controller forgets what it has not written to its log.
    pub(super) fn controllers_killed(&self) -> usize {
        let killed = |step: &&Step| step.fault == Fault::Controller(Stop::Killed);
        self.steps.iter().filter(killed).count()
    }
}

/// A fault of everything together is none that comes at random.
fn subject(fault: Fault) -> Subject {
    match fault {
        Fault::Cut(node)
        | Fault::CutManagement(node)
        | Fault::OneWay(node, _)
        | Fault::Late(node, ..)
        | Fault::Reboot(node) => Subject::Network(node),
        Fault::Agent(node, _) => Subject::Agent(node),
        Fault::Split(_) => Subject::Part,
        Fault::Controller(_) | Fault::Drain(_) => Subject::Controller,
    }
}

fn any_fault(rng: &mut StdRng) -> Fault {
    let stop = match rng.random() {
        true => Stop::Killed,
        false => Stop::Frozen,
    };
    let direction = match rng.random() {
        true => Direction::ToNode,
        false => Direction::FromNode,
    };
    let candidate = *CANDIDATES.choose(rng).expect("there are some");
    // A controller that is cut off, too.
    let node = rng.random_range(1..=CONTROLLER);
    match rng.random_range(0..8) {
        0 => Fault::Cut(candidate),
        1 => Fault::CutManagement(node),
        2 => Fault::OneWay(node, direction),
        3 | 4 => Fault::Agent(candidate, stop),
        5 => Fault::Controller(stop),
        6 => Fault::Split((1..=CONTROLLER).filter(|_| rng.random()).collect()),
        _ => Fault::Drain(candidate),
    }
}

#[test]
fn a_seed_gives_the_same_schedule_again() {
    let shown = |seed| format!("{:?}", Schedule::of(seed));
    assert_eq!(shown(7), shown(7));
    assert_ne!(shown(7), shown(8));
}
