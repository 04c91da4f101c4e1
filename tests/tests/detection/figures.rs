//! Detection times, and what they are held against.

use std::fmt::Write as _;
use std::time::Duration;

/// How much later than the rules allow the state to change a line may be read.
const SLACK: Duration = Duration::from_millis(15);

/// One detection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took {
    /// From when the test set about the failure until it read of it.
    pub(crate) time: Duration,
    /// Part of it for which the machine is to blame: processes that had to wait.
    pub(crate) late: Duration,
    /// How much longer it would have been had the last probe before the failure left in time.
    pub(crate) early: Duration,
}

/// Prints median and maximum, and holds every detection against `(above, upto + 15 ms]`.
///
/// A busy machine may stop the controller, or this process, for longer than 15 ms. Then, and only
/// then, the time for which it demonstrably did is allowed for; how often that was is printed.
pub(crate) fn assert_within(what: &str, took: &[Took], above: Duration, upto: Duration) {
    let bound = upto + SLACK;
    let is_within = |time: Duration| time > above && time <= bound;
    let mut times: Vec<Duration> = took.iter().map(|took| took.time).collect();
    times.sort_unstable();
    let [min, median, max] = [0, times.len() / 2, times.len() - 1].map(|index| times[index]);
    let mut line = format!(
        "{what}: {} times, min {min:.1?}, median {median:.1?}, max {max:.1?}, \
         allowed ({above:?}, {upto:?} + {SLACK:?}]",
        times.len()
    );
    let outside = times.iter().filter(|time| !is_within(**time)).count();
    if outside > 0 {
        // Writing to a string cannot fail.
        let _ = write!(line, ", {outside} outside since the machine was late");
    }
    println!("{line}");
    for took in took {
        let (low, high) = (took.time + took.early, took.time.saturating_sub(took.late));
        assert!(
            took.time > above || low > above,
            "{what}: too early: {took:?}"
        );
        assert!(
            took.time <= bound || high <= bound,
            "{what}: too late: {took:?}"
        );
    }
}
