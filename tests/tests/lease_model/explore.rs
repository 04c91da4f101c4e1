//! The whole design under everything that can go wrong, in long random schedules.
//!
//! `PULSEPATH_MODEL_SEEDS=100000` searches longer, `PULSEPATH_MODEL_SEEDS=4711..4712` replays one seed.

use std::ops::Range;

use crate::{
    rules::Rules,
    search::{Fault, Search},
    setup::Setup,
};

/// Seeds per setup unless the environment says otherwise.
const SEEDS: u64 = 800;

fn seeds() -> Range<u64> {
    let Ok(asked) = std::env::var("PULSEPATH_MODEL_SEEDS") else {
        return 0..SEEDS;
    };
    let number = |text: &str| -> u64 {
        text.parse().unwrap_or_else(|_| {
            panic!("PULSEPATH_MODEL_SEEDS={asked}: a number, or a range like 10..20")
        })
    };
    match asked.split_once("..") {
        Some((first, end)) => number(first)..number(end),
        None => 0..number(&asked),
    }
}

fn never_two_owners(setup: Setup) {
    let search = Search {
        setup,
        rules: Rules::DESIGN,
        faults: Fault::ALL,
        opening: &[],
        length: 400,
    };
    let mut steps = 0;
    let found = search.run(seeds(), &mut steps);
    println!("{} schedules, {steps} steps", seeds().count());
    if let Some(violation) = found {
        panic!(
            "{} (seed {})\n{}",
            violation.owners, violation.seed, violation.schedule
        );
    }
}

#[test]
fn two_gateways_with_witnesses_beside_them_never_share_an_address() {
    never_two_owners(Setup::SEPARATE);
}

#[test]
fn three_gateways_that_are_witnesses_never_share_an_address() {
    never_two_owners(Setup::MIXED);
}

#[test]
fn gateways_with_five_witnesses_never_share_an_address() {
    never_two_owners(Setup::LARGE);
}

#[test]
fn gateways_without_votes_never_share_an_address() {
    never_two_owners(Setup::STRICT);
}
