use std::cell::Cell;
use std::vec::Vec;

use super::*;
use crate::frame::Frame;
use crate::testing::{FenceCase, HostGuards, fence_cases};

const EXPIRES: u64 = 1_000;

fn outcome(case: &FenceCase, now: u64) -> FenceOutcome {
    let guards = HostGuards {
        expires_ns: EXPIRES,
        now,
    };
    let claims = Claims::read(&Frame::new(&mut case.frame.clone()), case.link);
    judge(&claims, &guards)
}

#[test]
fn every_case_has_its_outcome_with_a_lease_and_without() {
    for case in fence_cases() {
        let held = outcome(&case, EXPIRES - 1);
        assert_eq!(held, case.expected(true), "{}, lease held", case.name);
        let lapsed = outcome(&case, EXPIRES);
        assert_eq!(lapsed, case.expected(false), "{}, no lease", case.name);
    }
}

#[test]
fn every_outcome_has_its_case() {
    let cases = fence_cases();
    let seen: Vec<_> = cases
        .iter()
        .flat_map(|case| [case.expected(true), case.expected(false)])
        .collect();
    for outcome in FenceOutcome::ALL {
        assert!(seen.contains(outcome), "no case for {outcome:?}");
    }
}

#[test]
fn only_what_is_said_to_be_dropped_is() {
    for outcome in FenceOutcome::ALL {
        let by_name =
            outcome.label().starts_with("no_lease") || outcome.label().starts_with("shut");
        assert_eq!(outcome.is_fenced(), by_name, "{outcome:?}");
    }
}

#[test]
fn what_ends_early_is_said_to() {
    let truncated = fence_cases().into_iter().filter(|case| {
        case.name.starts_with("advertisement cut to") && case.link == LinkLayer::Ethernet
    });
    for case in truncated {
        let claims = Claims::read(&Frame::new(&mut case.frame.clone()), case.link);
        assert_eq!(
            claims.truncated,
            case.frame.len() < 14 + 40 + 24,
            "{}",
            case.name
        );
    }
}

/// Counts how often the clock is read.
struct Counting<'a> {
    guards: HostGuards,
    readings: &'a Cell<u32>,
}

impl Guards for Counting<'_> {
    fn guard(&self, address: Address) -> Option<Guard> {
        self.guards.guard(address)
    }

    fn lease_expires(&self) -> u64 {
        self.guards.lease_expires()
    }

    fn now(&self) -> u64 {
        self.readings.set(self.readings.get() + 1);
        self.guards.now()
    }
}

#[test]
fn the_clock_is_read_once_and_for_own_addresses_only() {
    for case in fence_cases() {
        let readings = Cell::new(0);
        let guards = Counting {
            guards: HostGuards {
                expires_ns: EXPIRES,
                now: 0,
            },
            readings: &readings,
        };
        let claims = Claims::read(&Frame::new(&mut case.frame.clone()), case.link);
        let outcome = judge(&claims, &guards);
        let own = outcome.label().starts_with("passed");
        assert_eq!(readings.get(), u32::from(own), "{}", case.name);
    }
}
