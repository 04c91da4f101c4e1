//! Without a clause of PROMISE (rule 3) or SAFE (rule 4).

use super::{
    script::{
        CHANGE_LEASE, NEW_PROCESS, PLACE, RENEW, SETTLE, TAKE, applies_unheard, claim, lose_memory,
        push, replace, vote, wait,
    },
    without,
};
use crate::{
    rules::Clause,
    search::{Fault, Opening::Do},
    setup::Setup,
};

#[test]
fn one_promise_must_not_be_enough() {
    without(Clause::PromiseNeedsMajority, Setup::SEPARATE).breaks();
}

/// The agent has not been told of the new set: two members of the old one, of which one has not
/// promised, still make a majority there.
#[test]
fn a_majority_of_the_newest_set_must_not_be_enough() {
    let opening = [Do(replace(0, 2, 5))];
    without(Clause::PromiseOfEverySet, Setup::SEPARATE)
        .after(&opening)
        .breaks();
}

/// The new instance knows nothing of the votes of the one that was asked.
#[test]
fn a_promise_must_name_the_instance() {
    let opening = [
        Do(wait(1200)),
        Do(vote(2, 0)),
        Do(vote(3, 0)),
        Do(vote(2, 0)),
        Do(vote(3, 0)),
        Do(lose_memory(2)),
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

/// For as long as both may vote, they share one vote.
#[test]
fn the_order_of_old_and_new_witnesses_does_not_matter_in_one_slot() {
    without(Clause::OldWitnessGoesFirst, Setup::SEPARATE).holds();
}

/// Votes of different sets do not add up: the old witness's last vote in another slot makes no majority
/// with the new one's.
#[test]
fn the_slot_of_a_new_witness_does_not_matter_where_each_set_has_its_own_votes() {
    let before = [
        Do(wait(1200)),
        Do(vote(4, 0)),
        Do(vote(4, 0)),
        Do(replace(0, 2, 5)),
    ];
    let after = [Do(vote(5, 0)), Do(vote(5, 0))];
    let opening = [&before[..], &applies_unheard(0), &after].concat();
    without(Clause::NewWitnessTakesOldSlot, Setup::SEPARATE)
        .after(&opening)
        .holds();
}

/// No set has both the witness that went first and the one that came last, so their votes make no
/// majority, although a majority of every set can do without either.
#[test]
fn changes_of_set_need_not_wait_for_each_other_where_each_set_has_its_own_votes() {
    let before = [
        Do(wait(1200)),
        Do(replace(0, 1, 5)),
        Do(replace(0, 2, 6)),
        Do(vote(3, 0)),
        Do(vote(3, 0)),
    ];
    let after = [Do(vote(6, 0)), Do(vote(6, 0))];
    let opening = [&before[..], &applies_unheard(0), &after].concat();
    without(Clause::SetChangesWait, Setup::SEPARATE)
        .after(&opening)
        .holds();
}

/// The same on a node that held no address while its set changed twice.
#[test]
fn placing_need_not_wait_for_changes_of_set_where_each_set_has_its_own_votes() {
    let before = [
        Do(replace(1, 1, 5)),
        Do(replace(1, 2, 6)),
        Do(TAKE),
        Do(push(0)),
        Do(PLACE),
        Do(wait(1200)),
        Do(vote(3, 1)),
        Do(vote(3, 1)),
    ];
    let after = [Do(vote(6, 1)), Do(vote(6, 1))];
    let opening = [&before[..], &applies_unheard(1), &after].concat();
    without(Clause::PlacingWaitsForSet, Setup::SEPARATE)
        .after(&opening)
        .holds();
}

#[test]
fn safe_must_count_the_own_renews() {
    without(Clause::SafeCountsRenews, Setup::STRICT_ALONE).breaks();
}

/// A witness that has just been replaced voted a moment ago, and is not asked any more.
#[test]
fn safe_must_count_the_last_confirmation() {
    let opening = [
        Do(wait(1200)),
        Do(vote(2, 0)),
        Do(vote(4, 0)),
        Do(vote(2, 0)),
        Do(vote(4, 0)),
        Do(replace(0, 2, 5)),
        Do(push(0)),
    ];
    without(Clause::SafeCountsConfirmation, Setup::SEPARATE)
        .after(&opening)
        .breaks();
}

#[test]
fn safe_must_count_the_start_of_the_term() {
    let opening = [
        Do(wait(1200)),
        Do(RENEW),
        Do(RENEW),
        Do(NEW_PROCESS),
        Do(claim(0)),
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
        Do(CHANGE_LEASE),
        Do(push(0)),
        Do(SETTLE),
        Do(RENEW),
        Do(RENEW),
        Do(CHANGE_LEASE),
    ];
    without(Clause::SafeUsesLargestLease, Setup::SEPARATE)
        .after(&opening)
        .breaks();
}

/// The lease that the longer L gave is still running when the agent confirms the shorter.
#[test]
fn a_longer_lease_must_be_waited_for_after_it_was_shortened() {
    let opening = [
        Do(CHANGE_LEASE),
        Do(push(0)),
        Do(SETTLE),
        Do(RENEW),
        Do(RENEW),
        Do(CHANGE_LEASE),
        Do(push(0)),
        Do(SETTLE),
    ];
    without(Clause::LongLeaseOutlivesChange, Setup::SEPARATE)
        .after(&opening)
        .breaks();
}

#[test]
fn a_confirmation_must_name_the_epoch() {
    without(Clause::ConfirmationNamesEpoch, Setup::SEPARATE).breaks();
}
