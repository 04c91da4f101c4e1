//! Detection times, and what they are held against.

use std::fmt::Write as _;
use std::time::Duration;

/// How much later than the rules allow the state to change a line may be read.
const SLACK: Duration = Duration::from_millis(15);

/// One detection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took {
    pub(crate) time: Duration,
    /// Part of it for which the machine is to blame.
    pub(crate) late: Duration,
}

/// Prints median and maximum, and holds every detection against `(above, upto + 15 ms]`.
///
/// A busy machine may stop the controller, or this process, for longer than 15 ms. Then, and only
/// then, the lateness that the controller reports of itself, and that of reading its report, are
/// taken off; how often that was is printed.
pub(crate) fn assert_within(what: &str, took: &[Took], above: Duration, upto: Duration) {
    let bound = upto + SLACK;
    let mut times: Vec<Duration> = took.iter().map(|took| took.time).collect();
    times.sort_unstable();
    let excused = took.iter().filter(|took| took.time > bound).count();
    let mut line = format!("{what}: {} times", times.len());
    let [first, middle, last] = [0, times.len() / 2, times.len() - 1].map(|index| times[index]);
    let _ = write!(
        line,
        ", min {first:.1?}, median {middle:.1?}, max {last:.1?}"
    );
    let _ = write!(line, ", allowed ({above:?}, {upto:?} + {SLACK:?}]");
    if excused > 0 {
        let _ = write!(line, ", {excused} above since the machine was late");
    }
    println!("{line}");
    for took in took {
        assert!(took.time > above, "{what}: too early: {took:?}");
        let own = took.time.saturating_sub(took.late);
        assert!(
            took.time <= bound || own <= bound,
            "{what}: too late: {took:?}"
        );
    }
}
