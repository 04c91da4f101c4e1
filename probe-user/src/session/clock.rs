//! Wall time for the timestamps in probes.

use std::time::{Duration, Instant};

use probe_ebpf::wire::ntp::NtpTime;

/// A pair of readings that ties the monotonic clock to wall time. Only what is written into
/// probes depends on it; no decision does.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WallClock {
    anchor: Option<(Instant, Duration)>,
}

impl WallClock {
    pub(super) fn set(&mut self, now: Instant, unix: Duration) {
        self.anchor = Some((now, unix));
    }

    /// Wall time at `now`; before the first reading, time since the first question.
    pub(super) fn at(&mut self, now: Instant) -> NtpTime {
        let (instant, unix) = *self.anchor.get_or_insert((now, Duration::ZERO));
        let wall = unix + now.saturating_duration_since(instant);
        NtpTime::from_unix_nanos(wall.as_nanos() as u64)
    }
}
