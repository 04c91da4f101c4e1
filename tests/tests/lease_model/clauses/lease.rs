//! Without a clause of RENEW (rule 1) or VOTE (rule 2).

use super::{
    script::{ABORT, PLACE, RENEW, TAKE, ask, lose_memory, push, reboot, restart, vote, wait},
    without,
};
use crate::{
    rules::Clause,
    search::{
        Fault,
        Opening::{Do, Only},
    },
    setup::Setup,
};

/// The boot clock begins again: what the old one showed comes round later.
#[test]
fn a_renew_from_before_a_reboot_must_not_count() {
    let opening = [
        Do(wait(800)),
        Do(RENEW),
        Only(RENEW),
        Only(reboot(0)),
        Do(push(0)),
    ];
    without(Clause::RenewChecksIncarnation, Setup::STRICT_ALONE)
        .faults(&[Fault::Delay])
        .after(&opening)
        .breaks();
}

#[test]
fn a_renew_from_the_future_can_only_come_from_another_incarnation() {
    without(Clause::RenewChecksFuture, Setup::STRICT_ALONE).holds();
}

#[test]
fn a_renew_below_the_applied_epoch_must_not_count() {
    without(Clause::RenewChecksFloor, Setup::SEPARATE)
        .faults(&[Fault::Partition])
        .breaks();
}

#[test]
fn a_renew_must_count_from_the_time_that_it_echoes() {
    without(Clause::RenewCountsFromEcho, Setup::SEPARATE)
        .faults(&[Fault::Delay])
        .breaks();
}

#[test]
fn a_renew_must_name_the_raised_floor() {
    without(Clause::RenewNamesFloor, Setup::SEPARATE).breaks();
}

#[test]
fn a_renew_must_not_echo_what_was_heard_after_the_term() {
    without(Clause::RenewEchoesOwnTerm, Setup::STRICT)
        .faults(&[Fault::Election])
        .breaks();
}

#[test]
fn taking_an_address_away_must_raise_the_floor() {
    without(Clause::TakingRaisesFloor, Setup::SEPARATE).breaks();
}

#[test]
fn a_vote_from_before_a_reboot_must_not_count() {
    let opening = [
        Do(wait(800)),
        Do(vote(2, 0)),
        Do(vote(3, 0)),
        Only(vote(2, 0)),
        Only(vote(3, 0)),
        Only(reboot(0)),
        Do(push(0)),
    ];
    without(Clause::VoteChecksIncarnation, Setup::SEPARATE)
        .faults(&[Fault::Delay])
        .after(&opening)
        .breaks();
}

#[test]
fn a_vote_from_the_future_can_only_come_from_another_incarnation() {
    without(Clause::VoteChecksFuture, Setup::SEPARATE).holds();
}

#[test]
fn a_vote_below_the_applied_epoch_must_not_count() {
    without(Clause::VoteChecksFloor, Setup::SEPARATE).breaks();
}

#[test]
fn a_vote_of_an_instance_outside_the_set_must_not_count() {
    let opening = [
        Do(TAKE),
        Do(ask(2)),
        Do(ask(3)),
        Do(ask(4)),
        Do(wait(1020)),
        Do(PLACE),
        Do(push(1)),
        Do(lose_memory(2)),
        Do(lose_memory(3)),
    ];
    without(Clause::VoteChecksInstance, Setup::SEPARATE)
        .after(&opening)
        .breaks();
}

#[test]
fn a_vote_must_count_from_the_time_that_it_echoes() {
    without(Clause::VoteCountsFromEcho, Setup::SEPARATE)
        .faults(&[Fault::Delay])
        .breaks();
}

#[test]
fn one_vote_must_not_be_enough() {
    without(Clause::VoteNeedsMajority, Setup::SEPARATE).breaks();
}

/// After a reboot nobody has voted yet.
#[test]
fn a_majority_of_those_who_have_voted_must_not_be_enough() {
    let opening = [Do(reboot(0)), Do(push(0))];
    without(Clause::MajorityOfWholeSet, Setup::SEPARATE)
        .after(&opening)
        .breaks();
}

/// The design says so. Excluding it costs nothing, and keeps a node from extending its own lease.
#[test]
fn a_nodes_own_vote_does_no_harm() {
    without(Clause::OwnVoteExcluded, Setup::MIXED).holds();
}

#[test]
fn a_witness_must_not_forget_floors_when_it_restarts() {
    let opening = [
        Do(TAKE),
        Do(ask(2)),
        Do(ask(3)),
        Do(ask(4)),
        Do(wait(1020)),
        Do(PLACE),
        Do(push(1)),
        Do(restart(2)),
        Do(restart(3)),
    ];
    without(Clause::FloorsDurable, Setup::SEPARATE)
        .after(&opening)
        .breaks();
}

#[test]
fn a_witness_that_lost_its_memory_must_not_vote_on() {
    let opening = [
        Do(TAKE),
        Do(ask(2)),
        Do(ask(3)),
        Do(ask(4)),
        Do(wait(1020)),
        Do(PLACE),
        Do(push(1)),
        Do(lose_memory(2)),
        Do(lose_memory(3)),
    ];
    without(Clause::LossMakesNewInstance, Setup::SEPARATE)
        .after(&opening)
        .breaks();
}

#[test]
fn a_restarted_witness_must_report_its_start() {
    let opening = [
        Do(wait(1200)),
        Do(vote(2, 0)),
        Do(vote(3, 0)),
        Do(vote(2, 0)),
        Do(vote(3, 0)),
        Do(restart(2)),
    ];
    without(Clause::RestartReportsStart, Setup::SEPARATE)
        .after(&opening)
        .breaks();
}

/// Asks of an aborted move arrive after those of the next one.
#[test]
fn a_witness_must_not_lower_a_floor() {
    let opening = [Do(TAKE), Only(ask(2)), Only(ask(3)), Do(ABORT), Do(push(0))];
    without(Clause::FloorsNeverDecrease, Setup::SEPARATE)
        .faults(&[Fault::Delay])
        .after(&opening)
        .breaks();
}

#[test]
fn a_witness_must_report_ages() {
    without(Clause::AgesNotTimes, Setup::SEPARATE).breaks();
}
