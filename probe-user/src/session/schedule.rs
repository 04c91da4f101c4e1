//! When each target's next round is due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::time::{Duration, Instant};

use super::registry::Handle;

/// 2^64 divided by the golden ratio: its multiples, modulo 2^64, are spread evenly however many
/// of them are taken.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A target's turn.
pub(super) struct Due {
    /// For when it was scheduled.
    pub(super) at: Instant,
    pub(super) handle: Handle,
    /// By how much it comes too late.
    pub(super) lag: Duration,
    /// Rounds that have been missed, this one included; 0 if it is to begin now.
    pub(super) missed: u64,
}

/// One entry per target, ordered by time. Entries of targets that are gone fall out when due.
#[derive(Debug)]
pub(super) struct Schedule {
    period: Duration,
    /// Where phases count from.
    epoch: Option<Instant>,
    due: BinaryHeap<Reverse<(Instant, Handle)>>,
}

impl Schedule {
    pub(super) fn new(period: Duration) -> Self {
        assert!(!period.is_zero(), "a period of zero probes without end");
        Self {
            period,
            epoch: None,
            due: BinaryHeap::new(),
        }
    }

    /// Adds a target. Its phase follows from its slot alone, so it stays whoever comes or goes.
    pub(super) fn add(&mut self, now: Instant, handle: Handle) {
        let epoch = *self.epoch.get_or_insert(now);
        let period = self.period.as_nanos();
        let fraction = u64::from(handle.index()).wrapping_mul(GOLDEN);
        let phase = (u128::from(fraction) * period) >> 64;
        let passed = now.saturating_duration_since(epoch).as_nanos() % period;
        let wait = (phase + period - passed) % period;
        self.due.push(Reverse((now + nanos(wait), handle)));
    }

    /// A target of which a round is due, or rounds have been missed. Its next one is due at its
    /// phase, after `now`.
    pub(super) fn take_due(
        &mut self,
        now: Instant,
        exists: impl Fn(Handle) -> bool,
    ) -> Option<Due> {
        loop {
            // Changed in place, not taken out and put back: one way through the heap, not two.
            let mut first = self.due.peek_mut()?;
            let Reverse((at, handle)) = *first;
            if at > now {
                return None;
            }
            if !exists(handle) {
                PeekMut::pop(first);
                continue;
            }
            let lag = now - at;
            let missed = if lag < self.period {
                0
            } else {
                lag.as_nanos() / self.period.as_nanos() + 1
            };
            let next = at + nanos(self.period.as_nanos() * missed.max(1));
            *first = Reverse((next, handle));
            return Some(Due {
                at,
                handle,
                lag,
                missed: missed as u64,
            });
        }
    }

    /// When the next round is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.peek().map(|first| first.0.0)
    }
}

/// A span of time, at most some 580 years.
fn nanos(nanos: u128) -> Duration {
    Duration::from_nanos(nanos as u64)
}
