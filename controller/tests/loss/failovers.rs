//! False failovers: a node answers all the time, and so many of its answers are lost in a row that the
//! controller gives it up.

use std::time::{Duration, Instant};

use controller::health::State;

use crate::chance::Chance;
use crate::net::Net;
use crate::{NODES, PERIOD, TIMEOUT, hours, rounds};

/// So many probes in a row must be unanswered for a node to be UNREACHABLE: of those that are due
/// within the timeout after the last reply, all.
const FATAL: u64 = (TIMEOUT.as_millis() / PERIOD.as_millis()) as u64;

/// What came of so many hours.
#[derive(Debug)]
struct Tally {
    /// How often enough probes in a row were unanswered.
    runs: u64,
    /// How often that made a node UNREACHABLE, where others were asked and where they were not.
    given_up: u64,
}

fn simulate(loss: f64, hours: f64, ask: bool) -> Tally {
    let began = Instant::now();
    let mut chance = Chance::new(7, loss);
    let unanswered = chance.unanswered();
    // A run begins with an answer, and goes on for as long as it is fatal.
    let likely = (1.0 - unanswered) * unanswered.powi(FATAL as i32);
    let mut tally = Tally {
        runs: 0,
        given_up: 0,
    };
    let mut left = rounds(hours);
    loop {
        let until_next = chance.failures_before(likely) + 1;
        if until_next > left {
            break;
        }
        left -= until_next;
        tally.runs += 1;
        let length = FATAL + chance.failures_before(1.0 - unanswered);
        tally.given_up += u64::from(is_given_up(tally.runs, loss, length, ask));
    }
    println!(
        "{NODES} nodes, {hours} h, {:.0} % lost each way, others {}: {} runs of {FATAL} or more \
         unanswered probes, {} false failovers ({:.1?})",
        loss * 100.0,
        if ask { "asked" } else { "not asked" },
        tally.runs,
        tally.given_up,
        began.elapsed()
    );
    tally
}

/// Whether a node is UNREACHABLE at any time after so many unanswered probes in a row. What else is
/// lost is left to chance.
fn is_given_up(seed: u64, loss: f64, length: u64, ask: bool) -> bool {
    let mut net = Net::new(seed, Chance::new(seed, loss), ask);
    net.run(TIMEOUT * 2, |_| false);
    net.unanswered = length;
    let mut given_up = false;
    let time = PERIOD * length as u32 + PERIOD + Duration::from_millis(1);
    net.run(time, |net| {
        given_up |= net.state() == State::Unreachable;
        given_up
    });
    given_up
}

#[test]
fn five_answers_lost_in_a_row_make_a_node_unreachable_if_nobody_else_is_asked() {
    assert!(!is_given_up(1, 0.01, FATAL - 1, false));
    assert!(is_given_up(1, 0.01, FATAL, false));
    assert!(!is_given_up(1, 0.01, FATAL, true));
}

#[test]
fn at_one_percent_loss_no_node_is_given_up_if_others_are_asked() {
    let without = simulate(0.01, hours(1000.0), false);
    assert_eq!(without.given_up, without.runs);
    let with = simulate(0.01, hours(1000.0), true);
    assert_eq!((with.runs, with.given_up), (without.runs, 0));
}

#[test]
fn at_five_percent_loss_no_node_is_given_up_if_others_are_asked() {
    let without = simulate(0.05, hours(0.5), false);
    assert_eq!(without.given_up, without.runs);
    assert!(without.runs > 50, "{without:?}");
    let with = simulate(0.05, hours(0.5), true);
    assert_eq!((with.runs, with.given_up), (without.runs, 0));
}
