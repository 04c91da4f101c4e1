//! What came back of a stream, and when: pure bookkeeping.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Answers that are further apart than this make a [`Gap`], even if nothing was lost between them.
const NOTABLE: Duration = Duration::from_millis(10);

/// A time without an answer, between two answers.
#[derive(Clone, Copy, Debug)]
pub struct Gap {
    /// The answer before it.
    pub from: Instant,
    /// The answer after it.
    pub until: Instant,
    /// Datagrams sent between those two that had not come back by then.
    pub lost: u64,
}

#[derive(Debug, Default)]
pub(super) struct Answers {
    last: Option<Instant>,
    longest_gap: Duration,
    gaps: Vec<Gap>,
    /// The sequence number after the newest that came back.
    next: u64,
    /// Older ones that have not come back.
    missing: BTreeSet<u64>,
}

impl Answers {
    /// Datagram `sequence` came back.
    pub(super) fn note(&mut self, at: Instant, sequence: u64) {
        let lost = sequence.saturating_sub(self.next);
        self.missing.extend(self.next..sequence);
        self.missing.remove(&sequence);
        self.next = self.next.max(sequence + 1);
        let Some(from) = self.last.replace(at) else {
            return;
        };
        self.longest_gap = self.longest_gap.max(at - from);
        if lost > 0 || at - from > NOTABLE {
            let until = at;
            self.gaps.push(Gap { from, until, lost });
        }
    }

    /// Of the datagrams before `sequence`, those that have not come back.
    pub(super) fn missing_before(&self, sequence: u64) -> u64 {
        let not_heard_of = sequence.saturating_sub(self.next);
        self.missing.range(..sequence).count() as u64 + not_heard_of
    }

    /// The times in which something was lost or late, in order.
    pub(super) fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// The longest time between two answers.
    pub(super) fn longest_gap(&self) -> Duration {
        self.longest_gap
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(answers: &[(u64, u64)]) -> Answers {
        let (start, mut noted) = (Instant::now(), Answers::default());
        for (at, sequence) in answers {
            noted.note(start + Duration::from_millis(*at), *sequence);
        }
        noted
    }

    #[test]
    fn what_does_not_come_back_is_missing_and_makes_a_gap() {
        let answers = answers(&[(1, 0), (2, 1), (5, 4), (6, 5)]);
        assert_eq!(
            (answers.missing_before(3), answers.missing_before(6)),
            (1, 2)
        );
        let [gap] = answers.gaps[..] else {
            panic!("{answers:?}");
        };
        assert_eq!(
            (gap.until - gap.from, gap.lost),
            (Duration::from_millis(3), 2)
        );
    }

    #[test]
    fn what_was_not_heard_of_yet_is_missing() {
        assert_eq!(answers(&[(1, 0)]).missing_before(5), 4);
    }

    #[test]
    fn what_comes_late_is_not_missing() {
        let answers = answers(&[(1, 0), (3, 2), (4, 1)]);
        assert_eq!(answers.missing_before(3), 0);
    }

    #[test]
    fn a_pause_without_a_loss_is_a_gap_if_it_is_long() {
        let answers = answers(&[(1, 0), (2, 1), (60, 2)]);
        let lost: Vec<u64> = answers.gaps.iter().map(|gap| gap.lost).collect();
        assert_eq!(lost, [0]);
    }
}
