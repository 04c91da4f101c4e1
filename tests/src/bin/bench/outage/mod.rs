//! The bench of what a client notices: how long its packets are lost when the node that owns its
//! egress IP is cut off, and that nothing is lost when only agents go.
//!
//! Pulsepath and keepalived own the same address on the same nodes of the same network, one after
//! the other. The client, the cuts and their number are the same for all.

mod client;
mod keepalived;
mod pulsepath;
mod report;
mod restarts;

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;

use client::{Contender, Cut};
use keepalived::Keepalived;
use pulsepath::Pulsepath;
use report::Row;

/// Profiles, and the longest outage allowed with each: until the owner is UNREACHABLE, its lease over, and
/// the address moved.
const PROFILES: [(&str, Duration); 2] = [
    ("default", Duration::from_millis(2_400)),
    ("fast", Duration::from_millis(500)),
];

/// How much to measure.
#[derive(Args)]
pub(crate) struct Options {
    /// How often each contender's owner is cut off, and how often all agents are restarted.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    cuts: u32,
}

/// Runs the bench and prints what it measured.
///
/// # Errors
/// Something does not work, or misses its target.
pub(crate) fn run(options: &Options) -> Result<()> {
    let cuts = options.cuts;
    let restarts = restarts::run(&mut Pulsepath::start("default")?, cuts)?;
    let ours = PROFILES.into_iter().map(|(profile, target)| {
        let name = format!("Pulsepath, {profile} profile");
        measure(&name, &Pulsepath::start(profile)?, cuts, Some(target))
    });
    let ours = ours.collect::<Result<Vec<Row>>>()?;
    let theirs = keepalived::INTERVALS.into_iter().map(|interval| {
        let name = format!("keepalived, advert_int {interval}");
        measure(&name, &Keepalived::start(interval)?, cuts, None)
    });
    let theirs = theirs.collect::<Result<Vec<Row>>>()?;

    println!("\n{restarts}\n");
    println!("{}", report::table(ours.iter().chain(&theirs)));
    for (ours, theirs) in ours.iter().zip(&theirs) {
        println!("{}", report::ratio(ours, theirs));
    }
    let mut missed: Vec<_> = ours.iter().filter_map(Row::missed).collect();
    missed.extend(restarts.missed());
    ensure!(missed.is_empty(), "{}", missed.join("; "));
    Ok(())
}

/// Cuts the owner off again and again.
fn measure(
    name: &str,
    contender: &impl Contender,
    cuts: u32,
    target: Option<Duration>,
) -> Result<Row> {
    println!("{name}: {cuts} cuts of the owner");
    let cuts: Vec<Cut> = (0..cuts)
        .map(|number| client::cut(contender, number))
        .collect::<Result<_>>()?;
    Ok(Row::new(name, &cuts, target))
}
