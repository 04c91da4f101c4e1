//! Without a clause of RENEW (rule 1) or VOTE (rule 2).

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
fn a_renew_from_before_a_reboot_must_not_count() {
    let opening = [
        Do(Action::Advance { ms: 800 }),
        Do(Action::Probe {
            controller: 0,
            gateway: 0,
        }),
        Only(Action::Probe {
            controller: 0,
            gateway: 0,
        }),
        Only(Action::Reboot { node: 0 }),
        Do(Action::Push {
            controller: 0,
            gateway: 0,
        }),
    ];
    without(Clause::RenewChecksIncarnation, Setup::STRICT_ALONE)
        .faults(&[Fault::Delay])
        .after(&opening)
        .breaks();
}

#[test]
fn a_renew_from_the_future_can_only_come_from_another_incarnation() {
    without(Clause::RenewChecksFuture, Setup::STRICT_ALONE)
        .faults(&[Fault::Delay, Fault::Reboot])
        .holds();
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
        Do(Action::Advance { ms: 800 }),
        Do(Action::Vote {
            witness: 2,
            gateway: 0,
        }),
        Do(Action::Vote {
            witness: 3,
            gateway: 0,
        }),
        Only(Action::Vote {
            witness: 2,
            gateway: 0,
        }),
        Only(Action::Vote {
            witness: 3,
            gateway: 0,
        }),
        Only(Action::Reboot { node: 0 }),
        Do(Action::Push {
            controller: 0,
            gateway: 0,
        }),
    ];
    without(Clause::VoteChecksIncarnation, Setup::SEPARATE)
        .faults(&[Fault::Delay])
        .after(&opening)
        .breaks();
}

#[test]
fn a_vote_from_the_future_can_only_come_from_another_incarnation() {
    without(Clause::VoteChecksFuture, Setup::SEPARATE)
        .faults(&[Fault::Delay, Fault::Reboot])
        .holds();
}

#[test]
fn a_vote_below_the_applied_epoch_must_not_count() {
    without(Clause::VoteChecksFloor, Setup::SEPARATE).breaks();
}

#[test]
fn a_vote_of_an_instance_outside_the_set_must_not_count() {
    let opening = [
        Do(Action::Take {
            controller: 0,
            address: 0,
        }),
        Do(Action::Ask {
            controller: 0,
            gateway: 0,
            witness: 2,
        }),
        Do(Action::Ask {
            controller: 0,
            gateway: 0,
            witness: 3,
        }),
        Do(Action::Ask {
            controller: 0,
            gateway: 0,
            witness: 4,
        }),
        Do(Action::Advance { ms: 1020 }),
        Do(Action::Place {
            controller: 0,
            address: 0,
            gateway: 1,
        }),
        Do(Action::Push {
            controller: 0,
            gateway: 1,
        }),
        Do(Action::LoseMemory { node: 2 }),
        Do(Action::LoseMemory { node: 3 }),
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

#[test]
fn a_majority_of_those_who_have_voted_must_not_be_enough() {
    let opening = [
        Do(Action::Reboot { node: 0 }),
        Do(Action::Push {
            controller: 0,
            gateway: 0,
        }),
    ];
    without(Clause::MajorityOfWholeSet, Setup::SEPARATE)
        .after(&opening)
        .breaks();
}

#[test]
fn a_nodes_own_vote_does_no_harm() {
    without(Clause::OwnVoteExcluded, Setup::MIXED)
        .faults(&[
            Fault::Delay,
            Fault::Partition,
            Fault::Reboot,
            Fault::MemoryLoss,
        ])
        .holds();
}

#[test]
fn a_witness_must_not_forget_floors_when_it_restarts() {
    let opening = [
        Do(Action::Take {
            controller: 0,
            address: 0,
        }),
        Do(Action::Ask {
            controller: 0,
            gateway: 0,
            witness: 2,
        }),
        Do(Action::Ask {
            controller: 0,
            gateway: 0,
            witness: 3,
        }),
        Do(Action::Ask {
            controller: 0,
            gateway: 0,
            witness: 4,
        }),
        Do(Action::Advance { ms: 1020 }),
        Do(Action::Place {
            controller: 0,
            address: 0,
            gateway: 1,
        }),
        Do(Action::Push {
            controller: 0,
            gateway: 1,
        }),
        Do(Action::Restart { node: 2 }),
        Do(Action::Restart { node: 3 }),
    ];
    without(Clause::FloorsDurable, Setup::SEPARATE)
        .after(&opening)
        .breaks();
}

#[test]
fn a_witness_that_lost_its_memory_must_not_vote_on() {
    let opening = [
        Do(Action::Take {
            controller: 0,
            address: 0,
        }),
        Do(Action::Ask {
            controller: 0,
            gateway: 0,
            witness: 2,
        }),
        Do(Action::Ask {
            controller: 0,
            gateway: 0,
            witness: 3,
        }),
        Do(Action::Ask {
            controller: 0,
            gateway: 0,
            witness: 4,
        }),
        Do(Action::Advance { ms: 1020 }),
        Do(Action::Place {
            controller: 0,
            address: 0,
            gateway: 1,
        }),
        Do(Action::Push {
            controller: 0,
            gateway: 1,
        }),
        Do(Action::LoseMemory { node: 2 }),
        Do(Action::LoseMemory { node: 3 }),
    ];
    without(Clause::LossMakesNewInstance, Setup::SEPARATE)
        .after(&opening)
        .breaks();
}

#[test]
fn a_restarted_witness_must_report_its_start() {
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
        Do(Action::Restart { node: 2 }),
    ];
    without(Clause::RestartReportsStart, Setup::SEPARATE)
        .after(&opening)
        .breaks();
}

#[test]
fn a_witness_must_not_lower_a_floor() {
    let opening = [
        Do(Action::Take {
            controller: 0,
            address: 0,
        }),
        Only(Action::Ask {
            controller: 0,
            gateway: 0,
            witness: 2,
        }),
        Only(Action::Ask {
            controller: 0,
            gateway: 0,
            witness: 3,
        }),
        Do(Action::Abort {
            controller: 0,
            address: 0,
        }),
        Do(Action::Push {
            controller: 0,
            gateway: 0,
        }),
    ];
    without(Clause::FloorsNeverDecrease, Setup::SEPARATE)
        .faults(&[Fault::Delay])
        .after(&opening)
        .breaks();
}

#[test]
fn a_witness_must_report_ages() {
    without(Clause::AgesNotTimes, Setup::SEPARATE).breaks();
}
