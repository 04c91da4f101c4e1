//! False failovers: a node answers all the time, and so many of its answers are lost in a row that the
//! controller gives it up.

use std::time::Duration;

use controller::health::State;

use super::chance::Chance;
use super::net::Net;
use super::{PERIOD, TIMEOUT, rounds};

/// So many probes in a row must be unanswered for a node to be UNREACHABLE: of those that are due
/// within the timeout after the last reply, all.
pub const FATAL: u64 = (TIMEOUT.as_millis() / PERIOD.as_millis()) as u64;

/// What came of so many hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failovers {
    /// How often enough probes in a row were unanswered.
    pub runs: u64,
    /// How often that made a node UNREACHABLE.
    pub given_up: u64,
}

impl Failovers {
    /// Of so many hours, with this share of all packets lost in each direction. `ask`: other nodes are
    /// asked before one is given up. The same every time.
    pub fn simulate(loss: f64, hours: f64, ask: bool) -> Self {
        let mut chance = Chance::new(7, loss);
        let unanswered = chance.unanswered();
        // A run begins with an answer, and goes on for as long as it is fatal.
        let likely = (1.0 - unanswered) * unanswered.powi(FATAL as i32);
        let mut failovers = Self {
            runs: 0,
            given_up: 0,
        };
        let mut left = rounds(hours);
        loop {
            let until_next = chance.failures_before(likely) + 1;
            if until_next > left {
                return failovers;
            }
            left -= until_next;
            failovers.runs += 1;
            let length = FATAL + chance.failures_before(1.0 - unanswered);
            let given_up = is_given_up(failovers.runs, loss, length, ask);
            failovers.given_up += u64::from(given_up);
        }
    }
}

/// Whether a node is UNREACHABLE at any time after so many unanswered probes in a row. What else is
/// lost is left to chance.
pub fn is_given_up(seed: u64, loss: f64, length: u64, ask: bool) -> bool {
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
