//! Flap damping: a node that keeps falling gets no new address until it has stood for a while.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

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
