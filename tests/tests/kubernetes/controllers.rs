//! Controllers fail, and are upgraded.

use controller::api::State;
use pulsepath_tests::egress::PATIENCE;
use pulsepath_tests::kubernetes::TAGS;
use pulsepath_tests::{LinkState, eventually};

use crate::shared::with_installation;
use crate::{assert_undisturbed, begin_egress, wait_for_nothing};

#[test]
fn nothing_moves_when_both_controllers_are_killed_and_start_again() {
    with_installation(|installation| {
        let (owner, stream) = begin_egress(installation);
        installation.kill_controllers(&[3, 4]).unwrap();
        wait_for_nothing();
        eventually(PATIENCE, || installation.leader());
        installation.await_all_available().unwrap();
        assert_undisturbed(&stream.finish());
        assert_eq!(installation.owner().unwrap(), owner);
    });
}

#[test]
fn a_new_leader_ends_the_move_that_its_predecessor_began_and_begins_no_other() {
    with_installation(|installation| {
        let (first, stream) = begin_egress(installation);
        let leader = eventually(PATIENCE, || installation.leader());
        installation
            .site()
            .set_links(first.node, LinkState::Down)
            .unwrap();
        let name = format!("n{}", first.node);
        installation
            .await_state(&name, Some(State::Unreachable))
            .unwrap();
        installation.kill_controllers(&[leader]).unwrap();
        let second = installation
            .await_owner_other_than(Some(first.node))
            .unwrap();
        stream.await_answers(1000, PATIENCE).unwrap();
        wait_for_nothing();
        assert_eq!(installation.owner().unwrap(), second);
    });
}

#[test]
fn an_upgrade_of_everything_at_once_moves_nothing_and_egress_goes_on() {
    with_installation(|installation| {
        let (owner, stream) = begin_egress(installation);
        installation.upgrade(TAGS[1], &[]).unwrap();
        installation.await_all_available().unwrap();
        assert_undisturbed(&stream.finish());
        assert_eq!(installation.owner().unwrap(), owner);
        installation.upgrade(TAGS[0], &[]).unwrap();
    });
}
