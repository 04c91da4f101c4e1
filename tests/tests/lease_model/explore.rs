//! The whole design under everything that can go wrong, in long random schedules.
//!
//! `PULSEPATH_MODEL_SEEDS=100000` searches longer, `PULSEPATH_MODEL_SEEDS=4711..4712` replays one seed.

use crate::{
    rules::Rules,
    search::{Fault, Search, seeds},
    setup::Setup,
};

/// Seeds per setup unless the environment says otherwise.
const SEEDS: u64 = 1200;

fn never_two_owners(setup: Setup, faults: &[Fault]) {
    let search = Search {
        setup,
        rules: Rules::DESIGN,
        faults,
        opening: &[],
        length: 400,
    };
    let mut steps = 0;
    let found = search.run(seeds(SEEDS), &mut steps);
    println!("{} schedules, {steps} steps", seeds(SEEDS).count());
    if let Some(violation) = found {
        panic!(
            "{} (seed {})\n{}",
            violation.owners, violation.seed, violation.schedule
        );
    }
}

#[test]
fn two_gateways_with_witnesses_beside_them_never_share_an_address() {
    never_two_owners(Setup::SEPARATE, Fault::ALL);
}

#[test]
fn three_gateways_that_are_witnesses_never_share_an_address() {
    never_two_owners(Setup::MIXED, Fault::ALL);
}

#[test]
fn gateways_with_five_witnesses_never_share_an_address() {
    never_two_owners(Setup::LARGE, Fault::ALL);
}

#[test]
fn gateways_without_votes_never_share_an_address() {
    never_two_owners(Setup::STRICT, Fault::ALL);
}

/// What is hardest to see: sets of all sizes that change while confirmations get lost and agents stop
/// half-way.
#[test]
fn changing_sets_never_share_an_address() {
    let faults = [
        Fault::Change,
        Fault::Delay,
        Fault::Partition,
        Fault::AgentRestart,
    ];
    never_two_owners(Setup::SEPARATE, &faults);
}
