//! From the kernel's receive timestamps, which are wall time, to the monotonic clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// By how much the clocks may drift apart, beside a thousandth of the time between two readings
/// (the kernel slews by half of that), before it counts as a step of the wall clock.
const JITTER: Duration = Duration::from_millis(1);
/// By how much a datagram may have arrived after the reading that it is related to.
const AHEAD_MAX: Duration = Duration::from_millis(10);
/// Both clocks are to be read within this time of each other.
const READ_WITHIN: Duration = Duration::from_micros(20);
const READ_ATTEMPTS: usize = 3;

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) now: Instant,
    /// Since the Unix epoch.
    pub(super) unix: Duration,
}

impl Reading {
    pub(super) fn take() -> Self {
        let mut attempts = 0;
        loop {
            let before = Instant::now();
            let unix = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default();
            let now = Instant::now();
            attempts += 1;
            if now - before <= READ_WITHIN || attempts == READ_ATTEMPTS {
                return Self { now, unix };
            }
        }
    }
}

/// Remembers how the clocks stood, so that a step of the wall clock is noticed.
#[derive(Debug, Default)]
pub(super) struct StampClock {
    last: Option<Reading>,
}

/// How to read timestamps until the next [`StampClock::update`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamps {
    reading: Reading,
    trusted: bool,
}

impl StampClock {
    /// Takes a new reading. Timestamps that were taken before a step of the wall clock mean
    /// nothing after it; what is read now counts as received now, then.
    pub(super) fn update(&mut self, reading: Reading) -> Stamps {
        let trusted = self.last.is_none_or(|last| {
            let passed = reading.now.saturating_duration_since(last.now);
            let expected = last.unix + passed;
            reading.unix.abs_diff(expected) <= JITTER + passed / 1000
        });
        self.last = Some(reading);
        Stamps { reading, trusted }
    }
}

impl Stamps {
    /// When a datagram with this timestamp arrived.
    pub(super) fn arrival(&self, stamp: Option<Duration>) -> Instant {
        let Reading { now, unix } = self.reading;
        let Some(stamp) = stamp.filter(|_| self.trusted) else {
            return now;
        };
        match unix.checked_sub(stamp) {
            Some(age) => now.checked_sub(age).unwrap_or(now),
            None => now + (stamp - unix).min(AHEAD_MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const DAY: Duration = Duration::from_secs(86_400);

    fn reading(start: Instant, passed: Duration, unix: Duration) -> Reading {
        Reading {
            now: start + passed,
            unix,
        }
    }

    #[test]
    fn a_timestamp_tells_when_a_datagram_arrived() {
        let start = Instant::now();
        let stamps = StampClock::default().update(reading(start, 100 * MS, DAY));
        assert_eq!(stamps.arrival(Some(DAY - 40 * MS)), start + 60 * MS);
    }

    #[test]
    fn a_datagram_may_arrive_just_after_the_reading() {
        let start = Instant::now();
        let stamps = StampClock::default().update(reading(start, MS, DAY));
        assert_eq!(stamps.arrival(Some(DAY + MS)), start + 2 * MS);
        assert_eq!(stamps.arrival(Some(DAY + DAY)), start + MS + AHEAD_MAX);
    }

    #[test]
    fn without_a_timestamp_it_arrived_now() {
        let start = Instant::now();
        assert_eq!(
            StampClock::default()
                .update(reading(start, MS, DAY))
                .arrival(None),
            start + MS
        );
    }

    #[test]
    fn timestamps_are_not_trusted_across_a_step_of_the_wall_clock() {
        let start = Instant::now();
        for stepped in [DAY + DAY, DAY - 500 * MS, DAY + 500 * MS] {
            let mut clock = StampClock::default();
            clock.update(reading(start, Duration::ZERO, DAY));
            let stamps = clock.update(reading(start, 100 * MS, stepped + 100 * MS));
            assert_eq!(stamps.arrival(Some(DAY + 50 * MS)), start + 100 * MS);
            let stamps = clock.update(reading(start, 200 * MS, stepped + 200 * MS));
            assert_eq!(stamps.arrival(Some(stepped + 150 * MS)), start + 150 * MS);
        }
    }

    #[test]
    fn slewing_is_no_step() {
        let start = Instant::now();
        let mut clock = StampClock::default();
        clock.update(reading(start, Duration::ZERO, DAY));
        let unix = DAY + 10_000 * MS + 5 * MS;
        let stamps = clock.update(reading(start, 10_000 * MS, unix));
        assert_eq!(stamps.arrival(Some(unix - MS)), start + 9_999 * MS);
    }
}
