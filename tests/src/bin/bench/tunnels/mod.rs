//! The bench of the tunnel counters: what they cost a packet, and what they leave of TCP's throughput
//! through a tunnel.

mod cost;
mod throughput;

use anyhow::Result;
use clap::Args;

/// What to measure.
#[derive(Args)]
pub(crate) struct Options {
    /// For how long each stream runs, for example 1s.
    #[arg(long, default_value = "1s")]
    duration: humantime::Duration,
    /// How often each way of counting is tried.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
}

/// Runs the bench and prints what it measured.
pub(crate) fn run(options: &Options) -> Result<()> {
    cost::run()?;
    throughput::run(*options.duration, options.rounds)
}

fn median(samples: Vec<f64>) -> f64 {
    let [_, median, _] = quartiles(samples);
    median
}

/// Below which a quarter, half and three quarters of the samples are.
fn quartiles(mut samples: Vec<f64>) -> [f64; 3] {
    samples.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| {
        let at = samples.len() * quarter / 4;
        samples.get(at).copied().unwrap_or(f64::NAN)
    })
}
