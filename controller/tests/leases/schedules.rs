//! Schedules from seeds.

use std::time::Duration;

use controller::failover::{Fencing, WitnessSettings};

use crate::world::{Rules, World};

const QUORUM: Fencing = Fencing::Quorum {
    lease: Duration::from_millis(1_400),
    alone: Duration::from_secs(3),
    witnesses: WitnessSettings {
        count: 3,
        patience: Duration::from_secs(4),
    },
};
const STRICT: Fencing = Fencing::Strict {
    lease: Duration::from_millis(1_400),
};
/// For how long everything fails, ms, and how long it takes at most until all is well again.
const FAILING: u64 = 18_000;
const HEALING: u64 = 25_000;

/// Runs one; returns how often an address moved, and how often a move was aborted, or what went wrong.
fn run(seed: u64, nodes: usize, fencing: Fencing, rules: Rules) -> Result<(u64, u64), Wrong> {
    let mut world = World::new(seed, nodes, fencing, rules);
    world.start_controller();
    world.pass(4_000);
    while world.now < FAILING && world.two_owners.is_none() {
        world.fail();
        let time = 10 + world.random.below(900);
        world.pass(time);
        if world.controller.is_none() && world.random.percent(30) {
            world.start_controller();
        }
    }
    world.heal();
    let until = world.now + HEALING;
    while world.two_owners.is_none() && !world.is_served() {
        if world.now >= until {
            return Err(Wrong::NoOwner(world.explain()));
        }
        world.pass(500);
    }
    let done = (world.moves, world.aborted);
    world
        .two_owners
        .map_or(Ok(done), |seen| Err(Wrong::TwoOwners(seen)))
}

enum Wrong {
    TwoOwners(String),
    /// Though all has been well for long.
    NoOwner(String),
}

/// As many as asked for, from `first` on.
fn run_all(first: u64, count: u64, nodes: usize, fencing: Fencing) {
    let (mut moves, mut aborted) = (0, 0);
    for seed in first..first + count {
        match run(seed, nodes, fencing, Rules::All) {
            Ok((moved, stayed)) => {
                moves += moved;
                aborted += stayed;
            }
            Err(Wrong::TwoOwners(what) | Wrong::NoOwner(what)) => {
                panic!("seed {seed}, {nodes} nodes, {fencing:?}: {what}")
            }
        }
    }
    println!("{count} schedules, {nodes} nodes: {moves} moves, {aborted} aborted");
    assert!(moves > count / 2, "hardly anything moved");
    assert!(aborted > count / 2, "hardly any move was aborted");
}

/// Whether any of some hundred schedules from `first` on ends with two owners.
fn finds_two_owners(rules: Rules, first: u64) -> bool {
    let is_found = |seed| matches!(run(seed, 5, QUORUM, rules), Err(Wrong::TwoOwners(_)));
    (first..first + 1_000).any(|seed| {
        let found = is_found(seed);
        if found {
            println!("{rules:?}: two owners with seed {seed}");
        }
        found
    })
}

#[test]
fn no_two_nodes_pass_one_address_with_three_witnesses_each() {
    run_all(0, 450, 5, QUORUM);
}

#[test]
fn no_two_nodes_pass_one_address_with_more_nodes_than_witnesses() {
    run_all(10_000, 250, 7, QUORUM);
}

#[test]
fn no_two_nodes_pass_one_address_with_one_witness_each() {
    run_all(20_000, 200, 3, QUORUM);
}

#[test]
fn no_two_nodes_pass_one_address_without_witnesses() {
    run_all(30_000, 100, 4, STRICT);
}

#[test]
fn two_do_if_kernels_take_no_notice_of_floors() {
    assert!(finds_two_owners(Rules::FloorsUnheeded, 0));
}

#[test]
fn two_do_if_witnesses_break_their_promises() {
    assert!(finds_two_owners(Rules::PromisesBroken, 0));
}

#[test]
fn two_do_if_a_witness_does_not_notice_that_it_has_lost_its_memory() {
    // It takes three faults together: the first of them that are found come late.
    assert!(finds_two_owners(Rules::MemoryLossUnnoticed, 550));
}
