//! What ping(8) says at the end.

use std::time::Duration;

use serde::Serialize;

use crate::cli::time::ms;

/// Sums over round-trip times.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrips {
    count: u64,
    min: Duration,
    max: Duration,
    /// ms
    sum: f64,
    /// ms²
    sum_of_squares: f64,
}

/// Round-trip times, ms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) min: f64,
    pub(super) avg: f64,
    pub(super) max: f64,
    /// Standard deviation, as ping(8) defines it.
    pub(super) mdev: f64,
}

impl RoundTrips {
    pub(super) fn add(&mut self, round_trip: Duration) {
        self.min = if self.count == 0 {
            round_trip
        } else {
            self.min.min(round_trip)
        };
        self.max = self.max.max(round_trip);
        self.count += 1;
        self.sum += ms(round_trip);
        self.sum_of_squares += ms(round_trip) * ms(round_trip);
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn spread(&self) -> Option<Spread> {
        if self.count == 0 {
            return None;
        }
        let avg = self.sum / self.count as f64;
        let variance = self.sum_of_squares / self.count as f64 - avg * avg;
        // Rounding can take the difference of two equal numbers below zero.
        let mdev = variance.max(0.0).sqrt();
        Some(Spread {
            min: ms(self.min),
            avg,
            max: ms(self.max),
            mdev,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_is_that_of_ping() {
        let mut round_trips = RoundTrips::default();
        assert_eq!(round_trips.spread(), None);
        for time in [2, 4, 4, 4, 5, 5, 7, 9] {
            round_trips.add(Duration::from_millis(time));
        }
        let expected = Spread {
            min: 2.0,
            avg: 5.0,
            max: 9.0,
            mdev: 2.0,
        };
        assert_eq!(round_trips.spread(), Some(expected));
    }

    #[test]
    fn equal_times_do_not_deviate() {
        let mut round_trips = RoundTrips::default();
        for _ in 0..3 {
            round_trips.add(Duration::from_nanos(100_100));
        }
        assert!(round_trips.spread().unwrap().mdev < 1e-6);
    }
}
