//! Without a clause of RECORD (rule 5), TERM (rule 6) or PUSH (rule 7).

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
fn owners_must_be_recorded_before_agents_are_told() {
    let opening = [
        Do(Action::Take {
            controller: 0,
            address: 0,
        }),
        Do(Action::Push {
            controller: 0,
            gateway: 0,
        }),
        Only(Action::Place {
            controller: 0,
            address: 0,
            gateway: 1,
        }),
        Only(Action::Lose { letter: 0 }),
        Do(Action::Push {
            controller: 0,
            gateway: 1,
        }),
        Do(Action::RestartController { controller: 0 }),
        Do(Action::Claim { controller: 0 }),
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
        Only(Action::ReplaceWitness {
            controller: 0,
            gateway: 0,
            slot: 2,
            by: 5,
        }),
        Only(Action::Lose { letter: 0 }),
        Do(Action::Push {
            controller: 0,
            gateway: 0,
        }),
        Do(Action::RestartController { controller: 0 }),
        Do(Action::Claim { controller: 0 }),
    ];
    without(Clause::SetsRecordedFirst, Setup::SEPARATE)
        .after(&opening)
        .breaks();
}

#[test]
fn a_longer_lease_must_be_recorded_before_agents_are_told() {
    let opening = [
        Only(Action::ChangeLease {
            controller: 0,
            gateway: 0,
        }),
        Only(Action::Lose { letter: 0 }),
        Do(Action::Push {
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
        Do(Action::RestartController { controller: 0 }),
        Do(Action::Claim { controller: 0 }),
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

#[test]
fn writes_must_be_conditional() {
    let opening = [
        Do(Action::Take {
            controller: 0,
            address: 0,
        }),
        Do(Action::Push {
            controller: 0,
            gateway: 0,
        }),
        Only(Action::Place {
            controller: 0,
            address: 0,
            gateway: 1,
        }),
        Do(Action::RestartController { controller: 0 }),
        Do(Action::Claim { controller: 0 }),
        Do(Action::Abort {
            controller: 0,
            address: 0,
        }),
        Do(Action::Push {
            controller: 0,
            gateway: 0,
        }),
    ];
    without(Clause::WritesConditional, Setup::SEPARATE)
        .faults(&[Fault::Delay, Fault::ControllerRestart])
        .after(&opening)
        .breaks();
}

#[test]
fn a_controller_must_act_within_its_term_only() {
    let opening = [
        Do(Action::Elect { controller: 1 }),
        Do(Action::Advance { ms: 1020 }),
        Do(Action::Elect { controller: 1 }),
        Do(Action::Claim { controller: 1 }),
    ];
    without(Clause::ActsWithinTerm, Setup::STRICT)
        .faults(&[Fault::Election])
        .after(&opening)
        .breaks();
}

#[test]
fn a_term_must_count_from_before_the_request() {
    let opening = [
        Only(Action::Elect { controller: 0 }),
        Only(Action::Deliver { letter: 0 }),
        Only(Action::Elect { controller: 1 }),
        Only(Action::Advance { ms: 980 }),
        Only(Action::Deliver { letter: 0 }),
        Only(Action::Advance { ms: 40 }),
        Do(Action::Elect { controller: 1 }),
        Do(Action::Claim { controller: 1 }),
        Do(Action::Advance { ms: 900 }),
        Do(Action::Probe {
            controller: 0,
            gateway: 0,
        }),
        Do(Action::Probe {
            controller: 0,
            gateway: 0,
        }),
    ];
    without(Clause::TermFromBeforeRequest, Setup::STRICT)
        .faults(&[Fault::Election])
        .after(&opening)
        .breaks();
}

#[test]
fn a_claim_is_not_needed_where_writes_are_conditional() {
    without(Clause::ClaimsRecord, Setup::STRICT)
        .faults(&[Fault::Delay, Fault::Election, Fault::ControllerRestart])
        .holds();
}

#[test]
fn a_restarted_process_must_start_its_own_term() {
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
    let opening = [
        Only(Action::Push {
            controller: 0,
            gateway: 0,
        }),
        Do(Action::Take {
            controller: 0,
            address: 0,
        }),
        Do(Action::Push {
            controller: 0,
            gateway: 0,
        }),
    ];
    without(Clause::RefusesOlder, Setup::SEPARATE)
        .faults(&[Fault::Delay])
        .after(&opening)
        .breaks();
}

#[test]
fn an_agent_must_refuse_what_another_incarnation_was_sent() {
    let opening = [
        Only(Action::Push {
            controller: 0,
            gateway: 0,
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
        Do(Action::Push {
            controller: 0,
            gateway: 1,
        }),
        Do(Action::Reboot { node: 0 }),
    ];
    without(Clause::RefusesOtherIncarnation, Setup::SEPARATE)
        .faults(&[Fault::Delay])
        .after(&opening)
        .breaks();
}

#[test]
fn removals_must_come_before_the_applied_epoch() {
    let opening = [
        Do(Action::Take {
            controller: 0,
            address: 0,
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
        Do(Action::Restart { node: 0 }),
    ];
    without(Clause::RemovalsFirst, Setup::SEPARATE)
        .after(&opening)
        .breaks();
}

#[test]
fn the_applied_epoch_must_be_written_last() {
    let opening = [
        Do(Action::Take {
            controller: 0,
            address: 0,
        }),
        Only(Action::Push {
            controller: 0,
            gateway: 0,
        }),
        Only(Action::Deliver { letter: 0 }),
        Only(Action::AgentStep { gateway: 0 }),
        Do(Action::Restart { node: 0 }),
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

#[test]
fn a_fresh_load_must_shut_what_it_finds() {
    without(Clause::FreshLoadShuts, Setup::SEPARATE)
        .faults(&[Fault::Reboot])
        .breaks();
}
