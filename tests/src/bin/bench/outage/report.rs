//! The table of all contenders.

use std::fmt::Write as _;
use std::time::Duration;

use super::client::Cut;

/// What all cuts of one contender's owner came to.
pub(super) struct Row {
    name: String,
    cuts: usize,
    median: Duration,
    max: Duration,
    alive: usize,
    /// The longest outage allowed, if there is a limit.
    target: Option<Duration>,
}

impl Row {
    /// Of at least one cut.
    pub(super) fn new(name: &str, cuts: &[Cut], target: Option<Duration>) -> Self {
        let mut outages: Vec<_> = cuts.iter().map(|cut| cut.outage).collect();
        outages.sort_unstable();
        Self {
            name: name.to_owned(),
            cuts: cuts.len(),
            median: outages[outages.len() / 2],
            max: outages[outages.len() - 1],
            alive: cuts.iter().filter(|cut| cut.alive).count(),
            target,
        }
    }

    /// What was off, if anything was.
    pub(super) fn missed(&self) -> Option<String> {
        let target = self.target.filter(|target| self.max > *target)?;
        let Self { name, max, .. } = self;
        Some(format!(
            "{name}: an outage of {max:.1?}, allowed {target:.1?}"
        ))
    }
}

/// How the outages of `ours` are to those of `theirs`.
pub(super) fn ratio(ours: &Row, theirs: &Row) -> String {
    let [median, max] = [(ours.median, theirs.median), (ours.max, theirs.max)]
        .map(|(ours, theirs)| ours.as_secs_f64() / theirs.as_secs_f64());
    format!(
        "{} / {}: median {median:.2}, max {max:.2}",
        ours.name, theirs.name
    )
}

/// All rows.
pub(super) fn table<'a>(rows: impl Iterator<Item = &'a Row>) -> String {
    let mut table = format!(
        "{:<28}{:>9}{:>9}{:>9}{:>14}\n",
        "outage, as the client saw it", "median", "max", "target", "TCP alive"
    );
    for row in rows {
        let target = match row.target {
            Some(target) => format!("{:.2} s", target.as_secs_f64()),
            None => String::new(),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            table,
            "{:<28}{:>9}{:>9}{:>9}{:>14}",
            row.name,
            format!("{:.2} s", row.median.as_secs_f64()),
            format!("{:.2} s", row.max.as_secs_f64()),
            target,
            format!("{} of {}", row.alive, row.cuts),
        );
    }
    table
}
