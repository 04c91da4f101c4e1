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

    /// When the wall clock showed `wall`, as far as this reading can tell: never later than now, and
    /// not before this machine was booted.
    ///
    /// A clock that was set back meanwhile makes it now, one that was set forward too long ago.
    pub fn instant_at(&self, wall: SystemTime) -> Option<Instant> {
        let ago = self.wall.duration_since(wall).unwrap_or_default();
        self.instant.checked_sub(ago)
    }

    /// What the wall clock shows at `instant`, as far as this reading can tell.
    pub fn wall_at(&self, instant: Instant) -> SystemTime {
        match instant.checked_duration_since(self.instant) {
            Some(later) => self.wall + later,
            None => self.wall - (self.instant - instant),
        }
    }
}
