//! Every clause, switched off, lets two nodes pass one address: one test each, so the model can fail.

mod lease;
mod moves;
mod script;
mod told;

use crate::{
    rules::{Clause, Rules},
    search::{Fault, Opening, Search, Violation, seeds},
    setup::Setup,
};

/// Schedules that are tried at most for a counterexample. Most need less than a hundred.
const SEEDS: u64 = 20_000;

/// Schedules that are tried where none is expected.
const UNMISSED: u64 = 300;

/// How a counterexample is looked for.
struct Without<'a>(Search<'a>, Clause);

/// All of the design, without one clause, in one setup, and with no faults.
const fn without(clause: Clause, setup: Setup) -> Without<'static> {
    let rules = Rules::DESIGN.without(clause);
    Without(
        Search {
            setup,
            rules,
            faults: &[],
            opening: &[],
            length: 200,
        },
        clause,
    )
}

impl<'a> Without<'a> {
    /// With these faults, too.
    const fn faults(self, faults: &'a [Fault]) -> Self {
        Self(Search { faults, ..self.0 }, self.1)
    }

    /// With schedules that begin like this: some counterexamples are so long that chance alone would need
    /// millions of steps.
    const fn after(self, opening: &'a [Opening]) -> Self {
        Self(Search { opening, ..self.0 }, self.1)
    }

    /// Expects two owners; and none in the same schedules under the whole design.
    fn breaks(self) {
        let Self(search, clause) = self;
        let mut steps = 0;
        let found = search.run(0..SEEDS, &mut steps);
        let Violation {
            seed,
            owners,
            schedule,
        } = found.unwrap_or_else(|| panic!("{clause:?} was not missed in {steps} steps"));
        println!("without {clause:?}: {owners} (seed {seed}, {steps} steps)\n{schedule}");
        let design = Search {
            rules: Rules::DESIGN,
            ..search
        };
        let broken = design.run(0..(seed + 1).max(200), &mut 0);
        assert!(broken.is_none(), "{clause:?} is not enough: {broken:#?}");
    }

    /// Expects that nobody misses the clause, whatever else goes wrong, because other clauses say enough.
    fn holds(self) {
        let Self(search, clause) = self;
        let search = Search {
            faults: Fault::ALL,
            ..search
        };
        let found = search.run(seeds(UNMISSED), &mut 0);
        assert!(
            found.is_none(),
            "{clause:?} is needed, after all: {found:#?}"
        );
    }
}

#[test]
fn no_clause_is_without_its_test() {
    let (_, clauses) = include_str!("rules.rs")
        .split_once("pub(crate) enum Clause {")
        .expect("declared there");
    let (clauses, _) = clauses.split_once("\n}").expect("ends");
    let tests = [
        include_str!("clauses/lease.rs"),
        include_str!("clauses/moves.rs"),
        include_str!("clauses/told.rs"),
    ]
    .concat();
    for clause in clauses
        .lines()
        .filter_map(|line| line.trim().strip_suffix(','))
    {
        assert!(
            tests.contains(&format!("without(Clause::{clause}, ")),
            "{clause} has no test"
        );
    }
}
