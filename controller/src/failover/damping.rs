//! Flap damping: a node that keeps falling gets no new address until it has stood for a while.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::DampingRecord;
use crate::api::Timestamp;
use crate::clock::Reading;

/// When a node is damped, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DampingSettings {
    /// So many falls to UNREACHABLE within `window` damp a node; 0: never.
    pub count: usize,
    /// See `count`. A node that falls so often again within `window` of its release is held longer.
    pub window: Duration,
    /// How long a damped node must have been AVAILABLE without a break to be released; doubles
    /// with each fall meanwhile.
    pub hold: Duration,
    /// What it doubles up to.
    pub hold_max: Duration,
}

/// What one node's falls made of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Damping {
    falls: VecDeque<Instant>,
    /// How long it must stand; `None`: not damped.
    hold: Option<Duration>,
    /// The last hold, and when it ended.
    released: Option<(Duration, Instant)>,
}

impl Damping {
    /// Goes on from what an earlier controller recorded. Falls of before this machine was booted are
    /// long ago; none lies in the future, whatever became of the clock.
    pub(super) fn restored(
        now: Reading,
        recorded: &DampingRecord,
        settings: &DampingSettings,
    ) -> Self {
        if settings.count == 0 {
            return Self::default();
        }
        let hold = |millis| Duration::from_millis(millis).min(settings.hold_max);
        let released = recorded.released.and_then(|(millis, Timestamp(at))| {
            let at = now.instant_at(at)?;
            Some((hold(millis), at))
        });
        let falls = recorded.falls.iter();
        let mut falls: Vec<Instant> = falls
            .filter_map(|Timestamp(at)| now.instant_at(*at))
            .collect();
        falls.sort_unstable();
        Self {
            falls: falls.into(),
            hold: recorded.hold_ms.map(hold),
            released,
        }
    }

    /// What a later controller has to know; `None`: nothing.
    pub(super) fn recorded(
        &self,
        now: Reading,
        settings: &DampingSettings,
    ) -> Option<DampingRecord> {
        let recent = |at: &Instant| now.instant.saturating_duration_since(*at) < settings.window;
        let millis = |hold: Duration| u64::try_from(hold.as_millis()).unwrap_or(u64::MAX);
        let at = |at: Instant| Timestamp(now.wall_at(at));
        let falls = self.falls.iter().filter(|it| recent(it));
        let released = self.released.filter(|(_, at)| recent(at));
        let record = DampingRecord {
            falls: falls.map(|it| at(*it)).collect(),
            hold_ms: self.hold.map(millis),
            released: released.map(|(hold, ended)| (millis(hold), at(ended))),
        };
        (record != DampingRecord::default()).then_some(record)
    }

    /// Takes note of a fall; whether the node is damped from now on.
    pub(super) fn fall(&mut self, now: Instant, settings: &DampingSettings) -> bool {
        if settings.count == 0 {
            return false;
        }
        if let Some(hold) = &mut self.hold {
            *hold = (*hold * 2).min(settings.hold_max);
            return false;
        }
        let recent = |at: &Instant| now.saturating_duration_since(*at) < settings.window;
        self.falls.push_back(now);
        self.falls.retain(recent);
        if self.falls.len() < settings.count {
            return false;
        }
        let again = self.released.filter(|(_, at)| recent(at));
        let hold = again.map_or(settings.hold, |(hold, _)| hold * 2);
        self.hold = Some(hold.min(settings.hold_max));
        true
    }

    /// How long the node must stand without a break, if it is damped.
    pub(super) fn hold(&self) -> Option<Duration> {
        self.hold
    }

    /// Releases a node that has been AVAILABLE since `stands`, if it is time; whether it was.
    pub(super) fn release(&mut self, now: Instant, stands: Instant) -> bool {
        match self.hold {
            Some(hold) if now.saturating_duration_since(stands) >= hold => {
                self.released = Some((hold, now));
                self.hold = None;
                self.falls.clear();
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    const SETTINGS: DampingSettings = DampingSettings {
        count: 3,
        window: Duration::from_secs(60),
        hold: Duration::from_secs(10),
        hold_max: Duration::from_secs(35),
    };

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn damped(start: Instant) -> Damping {
        let mut damping = Damping::default();
        assert!(!damping.fall(start, &SETTINGS));
        assert!(!damping.fall(start + seconds(1), &SETTINGS));
        assert!(damping.fall(start + seconds(2), &SETTINGS));
        damping
    }

    #[test]
    fn enough_falls_within_the_window_damp_a_node() {
        assert_eq!(damped(Instant::now()).hold(), Some(seconds(10)));
    }

    #[test]
    fn falls_further_apart_do_not() {
        let (mut damping, start) = (Damping::default(), Instant::now());
        for index in 0..20 {
            assert!(!damping.fall(start + seconds(31 * index), &SETTINGS));
        }
    }

    #[test]
    fn a_damped_node_is_released_once_it_has_stood_for_the_hold() {
        let start = Instant::now();
        let mut damping = damped(start);
        let stands = start + seconds(5);
        assert!(!damping.release(stands + seconds(9), stands));
        assert!(damping.release(stands + seconds(10), stands));
        assert_eq!(damping.hold(), None);
    }

    #[test]
    fn falls_while_damped_double_the_hold_up_to_the_limit() {
        let start = Instant::now();
        let mut damping = damped(start);
        for expected in [20, 35, 35] {
            damping.fall(start + seconds(3), &SETTINGS);
            assert_eq!(damping.hold(), Some(seconds(expected)));
        }
    }

    #[test]
    fn a_node_damped_again_soon_after_its_release_is_held_twice_as_long() {
        let start = Instant::now();
        let mut damping = damped(start);
        let released = start + seconds(12);
        assert!(damping.release(released, start + seconds(2)));
        for second in 1..=3 {
            damping.fall(released + seconds(second), &SETTINGS);
        }
        assert_eq!(damping.hold(), Some(seconds(20)));
    }

    fn reading(instant: Instant, wall: u64) -> Reading {
        Reading {
            instant,
            wall: SystemTime::UNIX_EPOCH + seconds(wall),
        }
    }

    #[test]
    fn what_is_recorded_is_restored_on_another_clock() {
        let start = Instant::now() + seconds(1000);
        let mut damping = damped(start);
        assert!(damping.release(start + seconds(30), start));
        damping.fall(start + seconds(31), &SETTINGS);
        let now = reading(start + seconds(40), 1_000_000);
        let record = damping.recorded(now, &SETTINGS).unwrap();
        // Five seconds later another process, whose clock counts from elsewhere.
        let later = reading(start + seconds(500), 1_000_005);
        let mut restored = Damping::restored(later, &record, &SETTINGS);
        assert_eq!(restored.recorded(later, &SETTINGS), Some(record));
        for second in 0..2 {
            restored.fall(later.instant + seconds(second), &SETTINGS);
        }
        assert_eq!(
            restored.hold(),
            Some(seconds(20)),
            "damped again, for longer"
        );
    }

    #[test]
    fn a_clock_that_was_set_back_makes_falls_recent_and_one_set_forward_forgets_them() {
        let start = Instant::now() + seconds(1000);
        let mut damping = Damping::default();
        for second in 0..2 {
            damping.fall(start + seconds(second), &SETTINGS);
        }
        let now = reading(start + seconds(2), 1_000_000);
        let record = damping.recorded(now, &SETTINGS).unwrap();
        for (wall, damps) in [(0, true), (1_000_001, true), (9_000_000, false)] {
            let now = reading(start + seconds(3), wall);
            let mut restored = Damping::restored(now, &record, &SETTINGS);
            assert_eq!(restored.fall(now.instant, &SETTINGS), damps, "{wall}");
        }
    }

    #[test]
    fn a_restored_hold_keeps_to_the_present_settings() {
        let start = Instant::now();
        let record = damped(start).recorded(reading(start + seconds(3), 1000), &SETTINGS);
        let record = record.unwrap();
        let restored = |settings| Damping::restored(reading(start, 1000), &record, &settings);
        let shorter = DampingSettings {
            hold_max: seconds(5),
            ..SETTINGS
        };
        assert_eq!(restored(shorter).hold(), Some(seconds(5)));
        let off = DampingSettings {
            count: 0,
            ..SETTINGS
        };
        assert_eq!(restored(off).hold(), None);
    }

    #[test]
    fn a_count_of_zero_damps_nobody() {
        let settings = DampingSettings {
            count: 0,
            ..SETTINGS
        };
        let (mut damping, now) = (Damping::default(), Instant::now());
        for _ in 0..100 {
            assert!(!damping.fall(now, &settings));
        }
    }
}
