//! Without a clause of PROMISE (rule 3) or SAFE (rule 4).

use super::without;
use crate::{
    rules::Clause,
    search::{
        Fault,
        Opening::{Do, Only},
    },
    setup::Setup,
    world::Action,
};

#[test]
fn one_promise_must_not_be_enough() {
    without(Clause::PromiseNeedsMajority, Setup::SEPARATE).breaks();
}

#[test]
fn a_majority_of_the_newest_set_must_not_be_enough() {
    let opening = [Do(Action::ReplaceWitness {
        controller: 0,
        gateway: 0,
        slot: 2,
        by: 5,
    })];
    without(Clause::PromiseOfEverySet, Setup::SEPARATE)
        .after(&opening)
        .breaks();
}

#[test]
fn a_promise_must_name_the_instance() {
    let opening = [
        Do(Action::Advance { ms: 1200 }),
        Do(Action::Vote {
            witness: 2,
            gateway: 0,
        }),
        Do(Action::Vote {
            witness: 3,
            gateway: 0,
        }),
        Do(Action::Vote {
            witness: 2,
            gateway: 0,
        }),
        Do(Action::Vote {
            witness: 3,
            gateway: 0,
        }),
        Do(Action::LoseMemory { node: 2 }),
    ];
    without(Clause::PromiseNamesInstance, Setup::SEPARATE)
        .after(&opening)
        .breaks();
}

#[test]
fn a_promise_must_name_the_floor() {
    without(Clause::PromiseNamesFloor, Setup::SEPARATE)
        .faults(&[Fault::Abort])
        .breaks();
}

#[test]
fn the_order_of_old_and_new_witnesses_does_not_matter_in_one_slot() {
    without(Clause::OldWitnessGoesFirst, Setup::SEPARATE)
        .faults(&[
            Fault::Change,
            Fault::AgentRestart,
            Fault::Partition,
            Fault::Delay,
        ])
        .holds();
}

#[test]
fn a_new_witness_must_take_the_slot_of_the_old_one() {
    let opening = [
        Do(Action::Advance { ms: 1200 }),
        Do(Action::Vote {
            witness: 4,
            gateway: 0,
        }),
        Do(Action::Vote {
            witness: 4,
            gateway: 0,
        }),
        Do(Action::ReplaceWitness {
            controller: 0,
            gateway: 0,
            slot: 2,
            by: 5,
        }),
        Only(Action::Push {
            controller: 0,
            gateway: 0,
        }),
        Only(Action::Deliver { letter: 0 }),
        Only(Action::AgentStep { gateway: 0 }),
        Only(Action::AgentStep { gateway: 0 }),
        Only(Action::AgentStep { gateway: 0 }),
        Only(Action::AgentStep { gateway: 0 }),
        Only(Action::AgentStep { gateway: 0 }),
        Only(Action::AgentStep { gateway: 0 }),
        Only(Action::Lose { letter: 0 }),
        Do(Action::Vote {
            witness: 5,
            gateway: 0,
        }),
        Do(Action::Vote {
            witness: 5,
            gateway: 0,
        }),
    ];
    without(Clause::NewWitnessTakesOldSlot, Setup::SEPARATE)
        .after(&opening)
        .breaks();
}

#[test]
fn a_set_must_not_change_twice_before_the_node_confirms() {
    let opening = [
        Do(Action::Advance { ms: 1200 }),
        Do(Action::ReplaceWitness {
            controller: 0,
            gateway: 0,
            slot: 1,
            by: 5,
        }),
        Do(Action::ReplaceWitness {
            controller: 0,
            gateway: 0,
            slot: 2,
            by: 6,
        }),
        Do(Action::Vote {
            witness: 3,
            gateway: 0,
        }),
        Do(Action::Vote {
            witness: 3,
            gateway: 0,
        }),
        Only(Action::Push {
            controller: 0,
            gateway: 0,
        }),
        Only(Action::Deliver { letter: 0 }),
        Only(Action::AgentStep { gateway: 0 }),
        Only(Action::AgentStep { gateway: 0 }),
        Only(Action::AgentStep { gateway: 0 }),
        Only(Action::AgentStep { gateway: 0 }),
        Only(Action::AgentStep { gateway: 0 }),
        Only(Action::AgentStep { gateway: 0 }),
        Only(Action::Lose { letter: 0 }),
        Do(Action::Vote {
            witness: 6,
            gateway: 0,
        }),
        Do(Action::Vote {
            witness: 6,
            gateway: 0,
        }),
    ];
    without(Clause::SetChangesWait, Setup::SEPARATE)
        .after(&opening)
        .breaks();
}

#[test]
fn an_address_must_not_be_placed_where_two_changes_of_set_are_open() {
    let opening = [
        Do(Action::ReplaceWitness {
            controller: 0,
            gateway: 1,
            slot: 1,
            by: 5,
        }),
        Do(Action::ReplaceWitness {
            controller: 0,
            gateway: 1,
            slot: 2,
            by: 6,
        }),
        Do(Action::Take {
            controller: 0,
            address: 0,
        }),
        Do(Action::Push {
            controller: 0,
            gateway: 0,
        }),
        Do(Action::Place {
            controller: 0,
            address: 0,
            gateway: 1,
        }),
        Do(Action::Advance { ms: 1200 }),
        Do(Action::Vote {
            witness: 3,
            gateway: 1,
        }),
        Do(Action::Vote {
            witness: 3,
            gateway: 1,
        }),
        Only(Action::Push {
            controller: 0,
            gateway: 1,
        }),
        Only(Action::Deliver { letter: 0 }),
        Only(Action::AgentStep { gateway: 1 }),
        Only(Action::AgentStep { gateway: 1 }),
        Only(Action::AgentStep { gateway: 1 }),
        Only(Action::AgentStep { gateway: 1 }),
        Only(Action::AgentStep { gateway: 1 }),
        Only(Action::AgentStep { gateway: 1 }),
        Only(Action::Lose { letter: 0 }),
        Do(Action::Vote {
            witness: 6,
            gateway: 1,
        }),
        Do(Action::Vote {
            witness: 6,
            gateway: 1,
        }),
    ];
    without(Clause::PlacingWaitsForSet, Setup::SEPARATE)
        .after(&opening)
        .breaks();
}

#[test]
fn safe_must_count_the_own_renews() {
    without(Clause::SafeCountsRenews, Setup::STRICT_ALONE).breaks();
}

#[test]
fn safe_must_count_the_last_confirmation() {
    let opening = [
        Do(Action::Advance { ms: 1200 }),
        Do(Action::Vote {
            witness: 2,
            gateway: 0,
        }),
        Do(Action::Vote {
            witness: 4,
            gateway: 0,
        }),
        Do(Action::Vote {
            witness: 2,
            gateway: 0,
        }),
        Do(Action::Vote {
            witness: 4,
            gateway: 0,
        }),
        Do(Action::ReplaceWitness {
            controller: 0,
            gateway: 0,
            slot: 2,
            by: 5,
        }),
        Do(Action::Push {
            controller: 0,
            gateway: 0,
        }),
    ];
    without(Clause::SafeCountsConfirmation, Setup::SEPARATE)
        .after(&opening)
        .breaks();
}

#[test]
fn safe_must_count_the_start_of_the_term() {
    let opening = [
        Do(Action::Advance { ms: 1200 }),
        Do(Action::Probe {
            controller: 0,
            gateway: 0,
        }),
        Do(Action::Probe {
            controller: 0,
            gateway: 0,
        }),
        Do(Action::RestartController { controller: 0 }),
        Do(Action::Claim { controller: 0 }),
    ];
    without(Clause::SafeCountsTermStart, Setup::STRICT_ALONE)
        .after(&opening)
        .breaks();
}

#[test]
fn safe_must_count_the_last_votes() {
    without(Clause::SafeCountsVotes, Setup::SEPARATE).breaks();
}

#[test]
fn safe_must_wait_for_a_lease() {
    without(Clause::SafeWaitsForLease, Setup::SEPARATE).breaks();
}

#[test]
fn safe_must_allow_for_clock_rates() {
    without(Clause::SafeAllowsForRates, Setup::SEPARATE).breaks();
}

#[test]
fn safe_must_use_the_largest_lease() {
    let opening = [
        Do(Action::ChangeLease {
            controller: 0,
            gateway: 0,
        }),
        Do(Action::Push {
            controller: 0,
            gateway: 0,
        }),
        Do(Action::Settle {
            controller: 0,
            gateway: 0,
        }),
        Do(Action::Probe {
            controller: 0,
            gateway: 0,
        }),
        Do(Action::Probe {
            controller: 0,
            gateway: 0,
        }),
        Do(Action::ChangeLease {
            controller: 0,
            gateway: 0,
        }),
    ];
    without(Clause::SafeUsesLargestLease, Setup::SEPARATE)
        .after(&opening)
        .breaks();
}

#[test]
fn a_longer_lease_must_be_waited_for_after_it_was_shortened() {
    let opening = [
        Do(Action::ChangeLease {
            controller: 0,
            gateway: 0,
        }),
        Do(Action::Push {
            controller: 0,
            gateway: 0,
        }),
        Do(Action::Settle {
            controller: 0,
            gateway: 0,
        }),
        Do(Action::Probe {
            controller: 0,
            gateway: 0,
        }),
        Do(Action::Probe {
            controller: 0,
            gateway: 0,
        }),
        Do(Action::ChangeLease {
            controller: 0,
            gateway: 0,
        }),
        Do(Action::Push {
            controller: 0,
            gateway: 0,
        }),
        Do(Action::Settle {
            controller: 0,
            gateway: 0,
        }),
    ];
    without(Clause::LongLeaseOutlivesChange, Setup::SEPARATE)
        .after(&opening)
        .breaks();
}

#[test]
fn a_confirmation_must_name_the_epoch() {
    without(Clause::ConfirmationNamesEpoch, Setup::SEPARATE).breaks();
}
