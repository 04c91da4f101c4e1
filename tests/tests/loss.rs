//! What the loss of packets does to nodes with which nothing is wrong; `bench loss` counts for longer.

use pulsepath_tests::loss::{FATAL, Failovers, Lapses, is_given_up};

#[test]
fn five_answers_lost_in_a_row_make_a_node_unreachable_if_nobody_else_is_asked() {
    assert!(!is_given_up(1, 0.01, FATAL - 1, false));
    assert!(is_given_up(1, 0.01, FATAL, false));
    assert!(!is_given_up(1, 0.01, FATAL, true));
}

/// Returns how often nodes were in danger.
fn assert_that_others_prevent_failovers(loss: f64, hours: f64) -> u64 {
    let without = Failovers::simulate(loss, hours, false);
    assert_eq!(without.given_up, without.runs);
    let with = Failovers::simulate(loss, hours, true);
    assert_eq!((with.runs, with.given_up), (without.runs, 0));
    with.runs
}

#[test]
fn at_one_percent_loss_no_node_is_given_up_if_others_are_asked() {
    assert!(assert_that_others_prevent_failovers(0.01, 1000.0) > 20);
}

#[test]
fn at_five_percent_loss_no_node_is_given_up_if_others_are_asked() {
    assert!(assert_that_others_prevent_failovers(0.05, 0.5) > 50);
}

fn lapses_in_a_thousand_hours(loss: f64, hours: f64) -> [f64; 2] {
    let lapses = Lapses::simulate(loss, hours);
    [lapses.without_votes, lapses.with_votes].map(|it| Lapses::rate(it, hours))
}

#[test]
fn at_one_percent_loss_less_than_one_lease_lapses_in_a_thousand_hours() {
    let [without, with] = lapses_in_a_thousand_hours(0.01, 0.3);
    assert!(without <= 1.0 && with <= 1.0, "{without}, {with}");
}

#[test]
fn at_five_percent_loss_votes_keep_leases_that_would_lapse() {
    let [without, with] = lapses_in_a_thousand_hours(0.05, 0.1);
    assert!(without > 1.0, "{without}");
    assert!(with <= 1.0, "{with}");
}
