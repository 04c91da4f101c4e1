//! Every schedule on real nodes, attached in every way.

use std::time::{Duration, Instant};

use pulsepath_tests::fencing::{
    Fencing, LEASE, SCHEDULES, Schedule, Site, TOGETHER, UNFENCED, Variant,
};

/// A busy machine's, beside what the rules say.
const SLACK: Duration = Duration::from_secs(1);

#[test]
fn no_schedule_makes_two_owners() {
    std::thread::scope(|scope| {
        for (number, variant) in (0..).zip(Variant::all(Fencing::Strict)) {
            scope.spawn(move || run_all(number, variant));
        }
    });
}

fn run_all(number: u8, variant: Variant) {
    let mut site = Site::start(&format!("fence{number}"), variant).unwrap();
    for schedule in SCHEDULES {
        run(&mut site, schedule);
    }
}

pub(crate) fn run(site: &mut Site, schedule: &Schedule) {
    let variant = site.variant();
    let began = Instant::now();
    let outcome = match site.run(schedule) {
        Ok(outcome) => outcome,
        Err(error) => panic!("{error:#}\n{}", site.scene().logs()),
    };
    let (name, took) = (schedule.name, began.elapsed());
    println!("{variant}: {name}: {outcome:.1?}, took {took:.1?}");
    assert_eq!(outcome.overlap, Duration::ZERO, "{variant}: {name}");
    // It went on until its lease was over, and no longer.
    let ends_with_lease = !site.shall_move(schedule) || outcome.last_seen < LEASE + SLACK;
    assert!(ends_with_lease, "{variant}: {name}: {outcome:?}");
}

#[test]
fn an_owner_that_is_cut_off_with_its_controller_goes_on() {
    let variant = Variant::all(Fencing::Strict)[0];
    let site = Site::start_with_the_controller_on_the_owner("fence-with", variant);
    run(&mut site.unwrap(), &TOGETHER);
}

#[test]
fn without_a_fence_the_recorder_sees_two_owners() {
    for (number, variant) in (0..).zip(Variant::all(Fencing::None)).take(2) {
        let mut site = Site::start(&format!("unfenced{number}"), variant).unwrap();
        let outcome = site.run(&UNFENCED).unwrap();
        println!("{variant}: {outcome:.1?}");
        assert!(outcome.overlap > Duration::from_millis(300), "{outcome:?}");
    }
}
