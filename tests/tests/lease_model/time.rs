//! Time: one true time that nobody can read, and clocks whose rates differ by up to 1 %.

/// True time in milliseconds.
pub(crate) type Ms = u64;

/// Time of one clock in nanoseconds.
pub(crate) type Ns = u64;

/// Nanoseconds in a millisecond.
pub(crate) const MS: Ns = 1_000_000;

/// The slowest and the fastest clock: nanoseconds per true microsecond.
pub(crate) const RATES: (u64, u64) = (1000, 1010);

/// A clock: a node's boot clock, or the monotonic clock of a controller's host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Clock {
    rate: u64,
    /// True time at which it stood at `started_with`.
    started: Ms,
    started_with: Ns,
}

impl Clock {
    /// A clock that shows `shows` at time 0, and goes at `rate` nanoseconds per true microsecond.
    pub(crate) const fn new(rate: u64, shows: Ns) -> Self {
        Self {
            rate,
            started: 0,
            started_with: shows,
        }
    }

    /// What the clock shows.
    pub(crate) const fn read(&self, now: Ms) -> Ns {
        self.started_with + (now - self.started) * self.rate * 1000
    }

    /// A boot clock begins again near 0 when its node reboots.
    pub(crate) const fn reboot(&mut self, now: Ms) {
        self.started = now;
        self.started_with = MS;
    }

    /// The first true time, from `now` on, at which the clock shows at least `shows`.
    pub(crate) const fn when(&self, now: Ms, shows: Ns) -> Ms {
        now + shows
            .saturating_sub(self.read(now))
            .div_ceil(self.rate * 1000)
    }
}
