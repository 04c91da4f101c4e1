//! Every clause, switched off, lets two nodes pass one address: one test each, so the model can fail.

mod lease;
mod moves;
mod told;

use crate::{
    rules::{Clause, Rules},
    search::{Fault, Opening, Search, Violation},
    setup::Setup,
};

/// Schedules that are tried at most for a counterexample. Most need less than a hundred.
const SEEDS: u64 = 20_000;

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

    /// Expects that nobody misses the clause, because other clauses say enough.
    fn holds(self) {
        let Self(search, clause) = self;
        let found = search.run(0..1000, &mut 0);
        assert!(
            found.is_none(),
            "{clause:?} is needed, after all: {found:#?}"
        );
    }
}
