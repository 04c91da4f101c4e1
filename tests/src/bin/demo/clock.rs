//! One time line for everything that is observed.

use std::time::{Duration, Instant, SystemTime};

/// Time since the demo began, on whichever clock an observation was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    instant: Instant,
    system: SystemTime,
}

impl Clock {
    /// Begins now.
    pub(crate) fn start() -> Self {
        Self {
            instant: Instant::now(),
            system: SystemTime::now(),
        }
    }

    /// The time now.
    pub(crate) fn now(&self) -> Duration {
        self.at(Instant::now())
    }

    /// A moment of this process's monotonic clock; zero if it was before the beginning.
    pub(crate) fn at(&self, instant: Instant) -> Duration {
        instant.saturating_duration_since(self.instant)
    }

    /// A moment of the wall clock, which all processes of the machine share.
    pub(crate) fn at_system(&self, time: SystemTime) -> Duration {
        time.duration_since(self.system).unwrap_or_default()
    }
}
