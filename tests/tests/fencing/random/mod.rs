//! Random faults from a seed, several at a time, on real nodes: never two owners, and all is well
//! again once everything is mended.
//!
//! A failing schedule prints its seed; `PULSEPATH_FENCING_SEEDS=7..8` runs that one alone, and
//! `PULSEPATH_FENCING_SEEDS=1000` runs so many.

mod run;
mod schedule;

use pulsepath_tests::fencing::Fencing;
use pulsepath_tests::seeds;

use self::run::Site;
use self::schedule::Schedule;

/// How many schedules are run, unless the environment says otherwise.
const SCHEDULES: u64 = 30;
/// Sites at a time: they wait most of the time. Each runs every third seed, so that a seed always
/// means the same kind of fencing.
const SITES: [Fencing; 3] = [Fencing::Strict, Fencing::Quorum, Fencing::Quorum];

#[test]
fn random_faults_never_make_two_owners() {
    let seeds = seeds("PULSEPATH_FENCING_SEEDS", SCHEDULES);
    std::thread::scope(|scope| {
        for (number, fencing) in (0..).zip(SITES) {
            let is_own = move |seed: &u64| seed % SITES.len() as u64 == number;
            let mut own = seeds.clone().filter(is_own).peekable();
            if own.peek().is_some() {
                scope.spawn(move || {
                    let mut site = Site::start(&format!("random{number}"), fencing);
                    own.for_each(|seed| site.run(&Schedule::of(seed)));
                });
            }
        }
    });
}
