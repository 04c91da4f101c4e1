//! Random faults from a seed, several at a time, on real nodes: never two owners, and all is well
//! again once everything is mended.
//!
//! A failing schedule prints its seed; `PULSEPATH_FENCING_SEEDS=7..8` runs that one alone, and
//! `PULSEPATH_FENCING_SEEDS=1000` runs so many.

mod run;
mod schedule;

use std::sync::atomic::{AtomicU64, Ordering};

use pulsepath_tests::seeds;

use self::run::Site;
use self::schedule::Schedule;

/// How many schedules are run, unless the environment says otherwise.
const SCHEDULES: u64 = 30;
/// Sites at a time: they wait most of the time.
const SITES: u64 = 3;

#[test]
fn random_faults_never_make_two_owners() {
    let seeds = seeds("PULSEPATH_FENCING_SEEDS", SCHEDULES);
    let next = AtomicU64::new(seeds.start);
    std::thread::scope(|scope| {
        for number in 0..SITES.min(seeds.end.saturating_sub(seeds.start)) {
            let (next, end) = (&next, seeds.end);
            scope.spawn(move || {
                let mut site = Site::start(&format!("random{number}"));
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        break;
                    }
                    site.run(&Schedule::of(seed));
                }
            });
        }
    });
}
