use super::*;
use crate::frame::Frame;
use crate::reflect::reflect;
use crate::testing::{HostNode, LEASE_LIMIT_MS, WITNESSES, lease_cases, test_node, witness_set};
use core::cell::RefCell;
use proptest::prelude::*;
use std::vec::Vec;

const LEASE: u64 = 1_000;

fn set(size: u32) -> Vec<Witness> {
    let instances: Vec<u64> = (1..=u64::from(size)).collect();
    let members = witness_set(1, &instances);
    members.into_iter().map(|(_, witness)| witness).collect()
}

#[test]
fn every_case_has_its_outcomes_and_its_lease() {
    let node = test_node();
    for case in lease_cases(&node.assignment, node.now) {
        let node = test_node();
        for step in &case.steps {
            let outcome = reflect(&mut Frame::new(&mut step.frame.clone()), &node);
            assert_eq!(outcome, step.expected, "{}", case.name);
        }
        assert_eq!(
            node.lease.borrow().expires_ns,
            case.expires_ns,
            "{}",
            case.name
        );
    }
}

#[test]
fn a_node_without_a_limit_grants_no_lease() {
    let mut node = test_node();
    node.assignment.lease_limit_ms = 0;
    for case in lease_cases(&node.assignment, node.now) {
        for step in &case.steps {
            reflect(&mut Frame::new(&mut step.frame.clone()), &node);
        }
        assert_eq!(node.lease.borrow().expires_ns, 0, "{}", case.name);
    }
}

fn ask(node: &HostNode, flags: u8, witness: u64, echoed_ns: u64) -> Outcome {
    let ask = Ask {
        flags: flags.into(),
        lease_ms: LEASE_LIMIT_MS,
        floor: node.assignment.applied_epoch,
        incarnation: node.assignment.incarnation,
        echoed_ns,
        witness,
    };
    consider(&ask, &node.assignment, node.now, node)
}

#[test]
fn a_witness_that_left_the_set_neither_votes_nor_counts() {
    let mut node = test_node();
    let [a, b, c, d, e] = WITNESSES;
    let echo = node.now - 10;
    assert_eq!(ask(&node, VOTE, a, echo), Outcome::AnsweredVote);
    assert_eq!(ask(&node, VOTE, b, echo), Outcome::AnsweredVote);
    // `a` is replaced by another, which takes over its slot.
    node.witnesses = witness_set(5, &[0xb1, b, c, d, e]);
    assert_eq!(ask(&node, VOTE, a, echo), Outcome::LeaseUnknownWitness);
    assert_eq!(ask(&node, VOTE, c, echo), Outcome::AnsweredVote);
    assert_eq!(ask(&node, VOTE, d, echo), Outcome::AnsweredVote);
    assert_eq!(
        node.lease.borrow().expires_ns,
        0,
        "two votes of the new set"
    );
    assert_eq!(ask(&node, VOTE, 0xb1, echo), Outcome::AnsweredVote);
    assert!(node.lease.borrow().is_held(node.now));
}

#[test]
fn a_change_of_set_leaves_the_lease_that_is_held() {
    let mut node = test_node();
    let echo = node.now - 10;
    for witness in &WITNESSES[..3] {
        ask(&node, VOTE, *witness, echo);
    }
    let before = *node.lease.borrow();
    assert!(before.is_held(node.now));
    node.witnesses = witness_set(5, &WITNESSES[2..]);
    ask(&node, VOTE, WITNESSES[2], echo);
    assert_eq!(node.lease.borrow().expires_ns, before.expires_ns);
}

#[test]
fn a_lapse_is_counted_once_however_often_it_is_asked_about() {
    let mut lease = NodeLease::default();
    assert_eq!(lease.lapses(5_000), 0, "there never was a lease");
    lease.renew(100, LEASE, 200);
    assert_eq!((lease.lapses(1_099), lease.is_held(1_099)), (0, true));
    assert_eq!((lease.lapses(1_100), lease.is_held(1_100)), (1, false));
    assert_eq!(lease.lapses(9_000), 1);
    // Knowledge that is too old to end the lapse.
    lease.renew(500, LEASE, 9_000);
    assert_eq!((lease.lapses(9_000), lease.is_held(9_000)), (1, false));
    lease.renew(8_900, LEASE, 9_000);
    assert_eq!((lease.lapses(9_000), lease.is_held(9_000)), (1, true));
    assert_eq!(lease.lapses(9_900), 2);
}

#[test]
fn what_remains_is_told_in_whole_milliseconds() {
    let remaining = NodeLease::remaining_ms;
    assert_eq!(remaining(0, 5), 0);
    assert_eq!(remaining(5, 5), 0);
    assert_eq!(remaining(1_999_999, 0), 1);
    assert_eq!(remaining(u64::MAX, 0), u32::MAX);
}

proptest! {
    /// The rule as it is written: the majority-th newest of the votes, newest per witness.
    #[test]
    fn votes_add_up_as_the_rule_says(
        size in 1_u32..=MAX_WITNESSES as u32,
        votes in prop::collection::vec((0_usize..MAX_WITNESSES, 1_u64..50), 0..40),
    ) {
        let members = set(size);
        let mut lease = NodeLease::default();
        let mut newest = std::vec![0; size as usize];
        for (index, echoed) in votes {
            let index = index % size as usize;
            lease.vote(&members[index], echoed, LEASE, 50);
            newest[index] = newest[index].max(echoed);
            let mut sorted = newest.clone();
            sorted.sort_unstable_by(|a, b| b.cmp(a));
            let basis = sorted[size as usize / 2];
            let expected = if basis == 0 { 0 } else { basis + LEASE };
            prop_assert_eq!(lease.expires_ns, expected);
        }
    }

    /// Whatever is asked in whatever order, the lease ends no later than the limit after the newest
    /// echo, and never earlier than it did.
    #[test]
    fn a_lease_never_outlives_what_the_askers_know(
        asks in prop::collection::vec((1_u32..4, 0_u64..8, 0_u64..200, any::<u32>()), 0..60),
    ) {
        let mut node = test_node();
        node.lease = RefCell::default();
        let (mut newest, mut before) = (0, 0);
        for (flags, witness, back, lease_ms) in asks {
            let echoed_ns = node.now + 20 - back;
            let ask = Ask {
                flags,
                lease_ms,
                floor: node.assignment.applied_epoch,
                incarnation: node.assignment.incarnation,
                echoed_ns,
                witness: if witness == 0 { 0 } else { 0xa0 + witness },
            };
            if consider(&ask, &node.assignment, node.now, &node).honoured() {
                newest = echoed_ns.max(newest);
            }
            let expires = node.lease.borrow().expires_ns;
            prop_assert!(expires >= before);
            prop_assert!(expires <= newest + u64::from(LEASE_LIMIT_MS) * 1_000_000);
            before = expires;
        }
    }
}
