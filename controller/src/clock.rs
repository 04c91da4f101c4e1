//! Points in time, as decision cores are given them.

use std::time::{Instant, SystemTime};

/// One point in time, on both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// What everything is decided by.
    pub instant: Instant,
    /// What people are told.
    pub wall: SystemTime,
}

impl Reading {
    /// Now.
    pub fn take() -> Self {
        Self {
            instant: Instant::now(),
            wall: SystemTime::now(),
        }
    }

    /// What the wall clock shows at `instant`, as far as this reading can tell.
    pub fn wall_at(&self, instant: Instant) -> SystemTime {
        match instant.checked_duration_since(self.instant) {
            Some(later) => self.wall + later,
            None => self.wall - (self.instant - instant),
        }
    }
}
