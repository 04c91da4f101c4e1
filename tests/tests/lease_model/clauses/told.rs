//! Without a clause of RECORD (rule 5), TERM (rule 6) or PUSH (rule 7).

use super::{
    script::{
        ABORT, CHANGE_LEASE, NEW_PROCESS, OLDEST_ARRIVES, OLDEST_IS_LOST, PLACE, RENEW, TAKE,
        claim, elect, push, reboot, replace, restart, step, wait,
    },
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

#[test]
fn owners_must_be_recorded_before_agents_are_told() {
    let opening = [
        Do(TAKE),
        Do(push(0)),
        Only(PLACE),
        Only(OLDEST_IS_LOST),
        Do(push(1)),
        Do(NEW_PROCESS),
        Do(claim(0)),
    ];
    without(Clause::OwnersRecordedFirst, Setup::SEPARATE)
        .after(&opening)
        .breaks();
}

#[test]
fn floors_must_be_recorded() {
    without(Clause::FloorsRecorded, Setup::SEPARATE)
        .faults(&[Fault::ControllerRestart])
        .breaks();
}

#[test]
fn sets_must_be_recorded_before_agents_are_told() {
    let opening = [
        Only(replace(0, 2, 5)),
        Only(OLDEST_IS_LOST),
        Do(push(0)),
        Do(NEW_PROCESS),
        Do(claim(0)),
    ];
    without(Clause::SetsRecordedFirst, Setup::SEPARATE)
        .after(&opening)
        .breaks();
}

#[test]
fn a_longer_lease_must_be_recorded_before_agents_are_told() {
    let opening = [
        Only(CHANGE_LEASE),
        Only(OLDEST_IS_LOST),
        Do(push(0)),
        Do(RENEW),
        Do(RENEW),
        Do(NEW_PROCESS),
        Do(claim(0)),
    ];
    without(Clause::LeaseRecordedFirst, Setup::SEPARATE)
        .after(&opening)
        .breaks();
}

#[test]
fn what_was_told_must_count_as_applied() {
    without(Clause::ToldCountsAsApplied, Setup::SEPARATE)
        .faults(&[Fault::Delay, Fault::Partition])
        .breaks();
}

/// A write of the dead process arrives after its successor decided otherwise.
#[test]
fn writes_must_be_conditional() {
    let opening = [
        Do(TAKE),
        Do(push(0)),
        Only(PLACE),
        Do(NEW_PROCESS),
        Do(claim(0)),
        Do(ABORT),
        Do(push(0)),
    ];
    without(Clause::WritesConditional, Setup::SEPARATE)
        .faults(&[Fault::Delay, Fault::ControllerRestart])
        .after(&opening)
        .breaks();
}

#[test]
fn a_controller_must_act_within_its_term_only() {
    let opening = [Do(elect(1)), Do(wait(1020)), Do(elect(1)), Do(claim(1))];
    without(Clause::ActsWithinTerm, Setup::STRICT)
        .faults(&[Fault::Election])
        .after(&opening)
        .breaks();
}

/// The store renewed the lock at once, but its answer took a second: counted from the answer's
/// arrival, the first term overlaps the second.
#[test]
fn a_term_must_count_from_before_the_request() {
    let opening = [
        Only(elect(0)),
        Only(OLDEST_ARRIVES),
        Only(elect(1)),
        Only(wait(980)),
        Only(OLDEST_ARRIVES),
        Only(wait(40)),
        Do(elect(1)),
        Do(claim(1)),
        Do(wait(900)),
        Do(RENEW),
        Do(RENEW),
    ];
    without(Clause::TermFromBeforeRequest, Setup::STRICT)
        .faults(&[Fault::Election])
        .after(&opening)
        .breaks();
}

/// Every decision begins with a write, and fails if somebody else has written.
#[test]
fn a_claim_is_not_needed_where_writes_are_conditional() {
    without(Clause::ClaimsRecord, Setup::STRICT).holds();
}

#[test]
fn a_restarted_process_must_start_its_own_term() {
    let opening = [
        Do(wait(1200)),
        Do(RENEW),
        Do(RENEW),
        Do(NEW_PROCESS),
        Do(claim(0)),
    ];
    without(Clause::TermStartsWithProcess, Setup::STRICT_ALONE)
        .after(&opening)
        .breaks();
}

#[test]
fn a_new_leader_must_start_from_the_record() {
    without(Clause::StartsFromRecord, Setup::STRICT)
        .faults(&[Fault::Election])
        .breaks();
}

#[test]
fn a_move_must_not_be_aborted_after_its_record() {
    without(Clause::AbortOnlyBeforeRecord, Setup::SEPARATE)
        .faults(&[Fault::Abort])
        .breaks();
}

#[test]
fn an_agent_must_refuse_older_assignments() {
    let opening = [Only(push(0)), Do(TAKE), Do(push(0))];
    without(Clause::RefusesOlder, Setup::SEPARATE)
        .faults(&[Fault::Delay])
        .after(&opening)
        .breaks();
}

/// An old assignment arrives at the node after it confirmed a newer one, and rebooted.
#[test]
fn an_agent_must_refuse_what_another_incarnation_was_sent() {
    let opening = [
        Only(push(0)),
        Do(TAKE),
        Do(push(0)),
        Do(PLACE),
        Do(push(1)),
        Do(reboot(0)),
    ];
    without(Clause::RefusesOtherIncarnation, Setup::SEPARATE)
        .faults(&[Fault::Delay])
        .after(&opening)
        .breaks();
}

#[test]
fn removals_must_come_before_the_applied_epoch() {
    let opening = [
        Do(TAKE),
        Only(push(0)),
        Only(OLDEST_ARRIVES),
        Only(step(0)),
        Only(step(0)),
        Only(step(0)),
        Only(step(0)),
        Do(restart(0)),
    ];
    without(Clause::RemovalsFirst, Setup::SEPARATE)
        .after(&opening)
        .breaks();
}

#[test]
fn the_applied_epoch_must_be_written_last() {
    let opening = [
        Do(TAKE),
        Only(push(0)),
        Only(OLDEST_ARRIVES),
        Only(step(0)),
        Do(restart(0)),
    ];
    without(Clause::EpochLast, Setup::SEPARATE)
        .after(&opening)
        .breaks();
}

#[test]
fn a_changed_incarnation_must_free_nothing() {
    without(Clause::RebootFreesNothing, Setup::SEPARATE)
        .faults(&[Fault::Delay, Fault::Reboot])
        .breaks();
}

/// Somebody else configured the addresses again.
#[test]
fn a_fresh_load_must_shut_what_it_finds() {
    without(Clause::FreshLoadShuts, Setup::SEPARATE)
        .faults(&[Fault::Reboot])
        .breaks();
}
