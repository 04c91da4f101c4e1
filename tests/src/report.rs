//! What was expected, what was measured, and whether that is right.

use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::time::Duration;

/// Seconds with two decimals, as people are shown all times.
pub fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

struct Row {
    what: String,
    expected: String,
    measured: String,
    right: bool,
}

/// The table that the demo and `e2e` end with.
#[derive(Default)]
pub struct Report {
    rows: Vec<Row>,
}

impl Report {
    /// Adds a line with its verdict.
    pub fn check(&mut self, what: &str, expected: &str, measured: &str, right: bool) {
        self.rows.push(Row {
            what: what.to_owned(),
            expected: expected.to_owned(),
            measured: measured.to_owned(),
            right,
        });
    }

    /// Adds a time that must lie in `expected`.
    pub fn check_time(
        &mut self,
        what: &str,
        expected: impl RangeBounds<Duration>,
        measured: Duration,
    ) {
        let right = expected.contains(&measured);
        self.check(what, &describe(&expected), &seconds(measured), right);
    }

    /// Adds a number of probes of which none may be lost.
    pub fn check_none_lost(&mut self, what: &str, probes: Probes) {
        let measured = format!("{} of {}", probes.lost, probes.total());
        self.check(
            what,
            "0",
            &measured,
            probes.lost == 0 && probes.answered > 0,
        );
    }

    /// The last line in words, and whether it is right.
    pub fn last(&self) -> Option<(String, bool)> {
        let Row {
            what,
            expected,
            measured,
            right,
        } = self.rows.last()?;
        Some((format!("{what}: {measured} (expected: {expected})"), *right))
    }

    /// Whether everything is as expected.
    pub fn all_right(&self) -> bool {
        self.rows.iter().all(|row| row.right)
    }
}

fn describe(range: &impl RangeBounds<Duration>) -> String {
    let word = |bound: Bound<&Duration>| match bound {
        Bound::Included(time) | Bound::Excluded(time) => Some(seconds(*time)),
        Bound::Unbounded => None,
    };
    match (word(range.start_bound()), word(range.end_bound())) {
        (None, None) => "any time".into(),
        (Some(least), None) => format!("at least {least}"),
        (None, Some(most)) => format!("up to {most}"),
        (Some(least), Some(most)) => format!("{least} to {most}"),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |cell: fn(&Row) -> &str, title: &str| {
            let cells = self.rows.iter().map(|row| cell(row).chars().count());
            cells.chain([title.len()]).max().unwrap_or_default()
        };
        let titles = ["what", "expected", "measured"];
        let what = width(|row| &row.what, titles[0]);
        let expected = width(|row| &row.expected, titles[1]);
        let measured = width(|row| &row.measured, titles[2]);
        let [a, b, c] = titles;
        writeln!(f, "  {a:what$}   {b:>expected$}   {c:>measured$}")?;
        writeln!(f, "  {}", "─".repeat(what + expected + measured + 6))?;
        for row in &self.rows {
            let Row {
                what: a,
                expected: b,
                measured: c,
                right,
            } = row;
            let verdict = if *right { "" } else { "   <- wrong" };
            writeln!(f, "  {a:what$}   {b:>expected$}   {c:>measured$}{verdict}")?;
        }
        Ok(())
    }
}

/// What became of some probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probes {
    /// Answered in time.
    pub answered: u64,
    /// Not answered in time.
    pub lost: u64,
}

impl Probes {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.answered + self.lost
    }

    /// Those since `earlier`.
    pub fn since(&self, earlier: Self) -> Self {
        Self {
            answered: self.answered - earlier.answered,
            lost: self.lost - earlier.lost,
        }
    }
}

impl std::iter::Sum for Probes {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |a, b| Self {
            answered: a.answered + b.answered,
            lost: a.lost + b.lost,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn one_wrong_line_spoils_the_report() {
        let mut report = Report::default();
        report.check_time("cut", SECOND..=2 * SECOND, 2 * SECOND);
        assert!(report.all_right());
        report.check_time("cut again", SECOND..=2 * SECOND, 3 * SECOND);
        assert!(!report.all_right());
        let table = report.to_string();
        let wrong = table.lines().find(|line| line.contains("wrong")).unwrap();
        assert!(wrong.contains("cut again"), "{table}");
    }

    #[test]
    fn probes_that_nobody_sent_prove_nothing() {
        let mut report = Report::default();
        report.check_none_lost("idle", Probes::default());
        assert!(!report.all_right());
    }

    #[test]
    fn columns_line_up() {
        let mut report = Report::default();
        report.check_time("short", ..=SECOND, SECOND);
        report.check_time("a much longer line", SECOND..=10 * SECOND, SECOND);
        let table = report.to_string();
        let widths: Vec<_> = table.lines().map(|line| line.chars().count()).collect();
        assert!(widths.windows(2).all(|pair| pair[0] == pair[1]), "{table}");
    }
}
