//! When each target's next round is due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use super::registry::Handle;

/// 2^64 divided by the golden ratio: its multiples, modulo 2^64, are spread evenly however many
/// of them are taken.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

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
        self.put(now + Duration::from_nanos(wait as u64), handle);
    }

    /// Sets when a target's next round is due.
    pub(super) fn put(&mut self, due: Instant, handle: Handle) {
        self.due.push(Reverse((due, handle)));
    }

    /// Takes out a target whose round is due.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<(Instant, Handle)> {
        let next = self.due.peek_mut()?;
        if next.0.0 > now {
            return None;
        }
        Some(std::collections::binary_heap::PeekMut::pop(next).0)
    }

    /// When the next round is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.peek().map(|next| next.0.0)
    }
}
