//! How long nothing has been heard.

use std::time::{Duration, Instant};

/// A time in which nothing was heard, without what the prober blames on itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Silence {
    /// The last sign of life, or when anybody began to listen.
    from: Instant,
    /// Of the time since then, what says nothing about the node.
    excused: Duration,
    /// Until when `excused` covers that time.
    judged: Instant,
}

impl Silence {
    pub(super) fn since(from: Instant) -> Self {
        Self {
            from,
            excused: Duration::ZERO,
            judged: from,
        }
    }

    /// When it began.
    pub(super) fn from(&self) -> Instant {
        self.from
    }

    pub(super) fn lasted(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.from)
            .saturating_sub(self.excused)
    }

    /// When it will have lasted so long, unless more of it is excused.
    pub(super) fn will_last(&self, time: Duration) -> Instant {
        self.from + self.excused + time
    }

    /// `excused` of the time until `due` says nothing about the node.
    pub(super) fn excuse(&mut self, due: Instant, excused: Duration) {
        let all = due.saturating_duration_since(self.from);
        self.excused = all.min(self.excused + excused);
        self.judged = self.judged.max(due);
    }

    /// Something was heard at `at`, which may have been some time ago.
    pub(super) fn interrupt(&mut self, at: Instant) {
        if at < self.from {
            return;
        }
        // What was excused may have been at any time until it was judged.
        let later = self.judged.saturating_duration_since(at);
        self.from = at;
        self.excused = self.excused.min(later);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_was_excused_before_it_was_interrupted_counts_no_more() {
        let start = Instant::now();
        let mut silence = Silence::since(start);
        silence.excuse(start + 10 * SECOND, 9 * SECOND);
        assert_eq!(silence.lasted(start + 10 * SECOND), SECOND);
        silence.interrupt(start + 10 * SECOND);
        assert_eq!(silence.lasted(start + 12 * SECOND), 2 * SECOND);
    }

    #[test]
    fn an_interruption_that_is_known_late_leaves_what_was_excused_since_then() {
        let start = Instant::now();
        let mut silence = Silence::since(start);
        silence.excuse(start + 10 * SECOND, 9 * SECOND);
        silence.interrupt(start + SECOND);
        assert_eq!(silence.lasted(start + 10 * SECOND), Duration::ZERO);
        assert_eq!(silence.lasted(start + 11 * SECOND), SECOND);
    }

    #[test]
    fn an_interruption_before_it_began_is_none() {
        let start = Instant::now();
        let mut silence = Silence::since(start + SECOND);
        silence.interrupt(start);
        assert_eq!(silence.lasted(start + 2 * SECOND), SECOND);
    }
}
