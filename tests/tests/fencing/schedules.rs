//! Every schedule on real nodes, attached in every way.

use std::time::Duration;

use anyhow::Result;
use pulsepath_tests::fencing::{
    Course, Fencing, LEASE, Outcome, Place, Schedule, Site, UNFENCED, Variant, run_courses,
};

/// What a busy machine takes beside what the rules say: to do what a schedule asks for, above all.
const SLACK: Duration = Duration::from_secs(3);
/// How often each schedule is run in each way to attach.
const ROUNDS: u32 = 3;
const SITES: usize = 5;

#[test]
fn no_schedule_makes_two_owners() {
    let courses = Variant::all(Fencing::Strict).map(Course::all).concat();
    run_courses("fence", &courses, ROUNDS, SITES, &check).unwrap();
}

/// Nobody ever saw two owners, and whoever had to fall silent did so in time.
pub(crate) fn check(site: &Site, schedule: &'static Schedule, outcome: Result<Outcome>) {
    let (variant, name) = (site.variant(), schedule.name);
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => panic!("{error:#}\n{}", site.scene().logs()),
    };
    println!("{variant}: {name}: {outcome:.1?}");
    assert_eq!(outcome.overlap, Duration::ZERO, "{variant}: {name}");
    // It went on until its lease was over, and no longer.
    let ends_with_lease = !site.shall_move(schedule) || outcome.last_seen < LEASE + SLACK;
    assert!(ends_with_lease, "{variant}: {name}: {outcome:?}");
}

#[test]
fn without_a_fence_the_recorder_sees_two_owners() {
    for (number, variant) in (0u8..).zip(Variant::all(Fencing::None)).take(2) {
        let purpose = format!("unfenced{number}");
        let mut site = Site::start(&purpose, variant, Place::Apart).unwrap();
        let outcome = site.run(&UNFENCED).unwrap();
        println!("{variant}: {outcome:.1?}");
        assert!(outcome.overlap > Duration::from_millis(300), "{outcome:?}");
    }
}
