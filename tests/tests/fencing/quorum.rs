//! Witnesses that extend leases: what goes on without a controller, and what does not move without them.

use pulsepath_tests::fencing::{Fencing, SCHEDULES, Schedule, Site, Variant, WITNESSED};

use crate::schedules::run;

fn run_all(purpose: &str, schedules: &[Schedule]) {
    let variant = Variant::all(Fencing::Quorum)[0];
    let mut site = Site::start(purpose, variant).unwrap();
    for schedule in schedules {
        run(&mut site, schedule);
    }
}

#[test]
fn no_schedule_makes_two_owners_and_egress_outlives_the_controller() {
    std::thread::scope(|scope| {
        scope.spawn(|| run_all("quorum-all", SCHEDULES));
        scope.spawn(|| run_all("quorum-own", WITNESSED));
    });
}
