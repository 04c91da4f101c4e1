//! Reading what daemons count.

use anyhow::{Context as _, Result, ensure};

/// The sum of all series of the metric `name`, without its prefix, whose line contains `label`, in the
/// Prometheus text `metrics`.
///
/// # Errors
/// There is no such metric, or it is no number.
pub fn sum(metrics: &str, name: &str, label: &str) -> Result<u64> {
    let name = format!("pulsepath_{name}");
    let of_metric = |line: &&str| {
        let rest = line.strip_prefix(&name);
        rest.is_some_and(|rest| rest.starts_with([' ', '{']))
    };
    let lines: Vec<&str> = metrics.lines().filter(of_metric).collect();
    ensure!(!lines.is_empty(), "no metric is called {name}:\n{metrics}");
    let values = lines.iter().filter(|line| line.contains(label));
    let value = |line: &&str| {
        let value = line.rsplit(' ').next().and_then(|text| text.parse().ok());
        let value: f64 = value.with_context(|| format!("no number: {line}"))?;
        Ok(value as u64)
    };
    values.map(value).sum()
}
