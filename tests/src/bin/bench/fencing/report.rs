//! The table of all schedules.

use std::fmt::Write as _;
use std::time::Duration;

use pulsepath_tests::fencing::Outcome;

/// What all runs of one schedule came to.
pub(super) struct Row {
    name: &'static str,
    outcomes: Vec<Outcome>,
    /// Runs that did not end as they should.
    failed: usize,
}

impl Row {
    /// Without any run yet.
    pub(super) const fn new(name: &'static str) -> Self {
        Self {
            name,
            outcomes: Vec::new(),
            failed: 0,
        }
    }

    /// One more run; `None`: it did not end as it should.
    pub(super) fn note(&mut self, outcome: Option<Outcome>) {
        match outcome {
            Some(outcome) => self.outcomes.push(outcome),
            None => self.failed += 1,
        }
    }

    /// The runs of another row, too.
    pub(super) fn add(&mut self, other: Self) {
        self.outcomes.extend(other.outcomes);
        self.failed += other.failed;
    }

    fn most_overlap(&self) -> Duration {
        let overlaps = self.outcomes.iter().map(|outcome| outcome.overlap);
        overlaps.max().unwrap_or_default()
    }

    /// The shortest time for which two owners were seen.
    pub(super) fn least_overlap(&self) -> Duration {
        let overlaps = self.outcomes.iter().map(|outcome| outcome.overlap);
        overlaps.min().unwrap_or_default()
    }

    /// What was off, if anything was.
    pub(super) fn failure(&self) -> Option<String> {
        let Self { name, failed, .. } = self;
        let overlap = self.most_overlap();
        if *failed > 0 {
            return Some(format!("{name}: {failed} runs did not end as they should"));
        }
        (!overlap.is_zero()).then(|| format!("{name}: two owners for {overlap:.1?}"))
    }
}

/// All rows.
pub(super) fn table(rows: &[Row]) -> String {
    let mut table = format!(
        "{:<58}{:>6}{:>8}{:>8}{:>14}{:>16}\n",
        "schedule", "runs", "failed", "moved", "overlap, ms", "old owner, s"
    );
    for row in rows {
        let moved = row.outcomes.iter().filter(|outcome| outcome.moved);
        let last_seen = moved.clone().map(|outcome| outcome.last_seen).max();
        let last_seen =
            last_seen.map_or("-".to_owned(), |time| format!("{:.2}", time.as_secs_f64()));
        // Writing to a string cannot fail.
        let _ = writeln!(
            table,
            "{:<58}{:>6}{:>8}{:>8}{:>14}{:>16}",
            row.name,
            row.outcomes.len() + row.failed,
            row.failed,
            moved.count(),
            format!("{:.1}", row.most_overlap().as_secs_f64() * 1e3),
            last_seen,
        );
    }
    table
}
