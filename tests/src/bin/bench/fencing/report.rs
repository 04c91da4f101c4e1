//! The table of all schedules.

use std::fmt;
use std::time::Duration;

use pulsepath_tests::fencing::{Course, Outcome, Variant};

/// What all runs came to, by schedule and variant.
pub(super) struct Table {
    variants: Vec<Variant>,
    rows: Vec<Row>,
}

/// All runs of one schedule.
struct Row {
    name: &'static str,
    outcomes: Vec<(Variant, Outcome)>,
    /// Runs that did not end as they should.
    failed: usize,
}

impl Table {
    /// Without any run yet.
    pub(super) fn new(courses: &[Course]) -> Self {
        let mut table = Self {
            variants: Vec::new(),
            rows: Vec::new(),
        };
        for course in courses {
            if !table.variants.contains(&course.variant) {
                table.variants.push(course.variant);
            }
            for schedule in &course.schedules {
                if !table.rows.iter().any(|row| row.name == schedule.name) {
                    table.rows.push(Row {
                        name: schedule.name,
                        outcomes: Vec::new(),
                        failed: 0,
                    });
                }
            }
        }
        table
    }

    /// One more run; `None`: it did not end as it should.
    pub(super) fn note(&mut self, variant: Variant, name: &str, outcome: Option<Outcome>) {
        if let Some(row) = self.rows.iter_mut().find(|row| row.name == name) {
            match outcome {
                Some(outcome) => row.outcomes.push((variant, outcome)),
                None => row.failed += 1,
            }
        }
    }

    /// The shortest time for which two owners were seen.
    pub(super) fn least_overlap(&self) -> Duration {
        let outcomes = self.rows.iter().flat_map(|row| &row.outcomes);
        let overlaps = outcomes.map(|(_, outcome)| outcome.overlap);
        overlaps.min().unwrap_or_default()
    }

    /// What was off.
    pub(super) fn failures(&self) -> Vec<String> {
        self.rows.iter().filter_map(Row::failure).collect()
    }
}

impl Row {
    fn failure(&self) -> Option<String> {
        let Self { name, failed, .. } = self;
        if *failed > 0 {
            return Some(format!("{name}: {failed} runs did not end as they should"));
        }
        let overlaps = self.outcomes.iter().map(|(_, outcome)| outcome.overlap);
        let most = overlaps.max().unwrap_or_default();
        (!most.is_zero()).then(|| format!("{name}: two owners for {most:.1?}"))
    }

    /// The longest time for which two owners were seen in a variant, ms.
    fn overlap_in(&self, variant: Variant) -> String {
        let of_variant = self.outcomes.iter().filter(|(other, _)| *other == variant);
        let most = of_variant.map(|(_, outcome)| outcome.overlap).max();
        most.map_or_else(dash, |overlap| {
            format!("{:.1}", overlap.as_secs_f64() * 1e3)
        })
    }

    /// When the old owner of a run in which the address moved was seen last, s.
    fn last_seen(&self) -> String {
        let moved = self.outcomes.iter().filter(|(_, outcome)| outcome.moved);
        let last = moved.map(|(_, outcome)| outcome.last_seen).max();
        last.map_or_else(dash, |time| format!("{:.2}", time.as_secs_f64()))
    }

    /// The most packets that a client lost whose owner stayed.
    fn lost(&self) -> String {
        let stayed = self.outcomes.iter().filter(|(_, outcome)| !outcome.moved);
        let lost = stayed.map(|(_, outcome)| outcome.lost).max();
        lost.map_or_else(dash, |lost| lost.to_string())
    }
}

fn dash() -> String {
    "-".to_owned()
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<58}{:>6}{:>8}{:>8}{:>15}{:>10}  overlap, ms:",
            "schedule", "runs", "failed", "moved", "old owner, s", "lost"
        )?;
        for variant in &self.variants {
            let (attach, hook, family) = (variant.attach, variant.hook, variant.family);
            write!(f, "{:>22}", format!("{attach:?}/{hook:?}/{family:?}"))?;
        }
        writeln!(f)?;
        for row in &self.rows {
            let moved = row.outcomes.iter().filter(|(_, outcome)| outcome.moved);
            write!(
                f,
                "{:<58}{:>6}{:>8}{:>8}{:>15}{:>10}              ",
                row.name,
                row.outcomes.len() + row.failed,
                row.failed,
                moved.count(),
                row.last_seen(),
                row.lost()
            )?;
            for variant in &self.variants {
                write!(f, "{:>22}", row.overlap_in(*variant))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
