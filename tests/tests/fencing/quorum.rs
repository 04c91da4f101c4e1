//! Witnesses that extend leases: what goes on without a controller, and what does not move without them.

use pulsepath_tests::fencing::{Course, Fencing, Variant, run_courses};

use crate::schedules::check;

/// Three of each, since there are three ways to attach.
const ROUNDS: u32 = 1;
const SITES: usize = 3;

#[test]
fn no_schedule_makes_two_owners_and_egress_outlives_the_controller() {
    let courses = Variant::all(Fencing::Quorum).map(Course::all).concat();
    run_courses("quorum", &courses, ROUNDS, SITES, &check).unwrap();
}
