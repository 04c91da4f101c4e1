//! The bench of the prober: how many nodes one core can probe, at which rate, against the
//! kernel's reflector at the other end of a veth.
//!
//! The reflector answers for many addresses at once, so one reflector stands for all nodes. Its
//! work is done on the prober's core, in the system calls that send probes: what is measured is
//! the whole way there and back.

mod blast;
mod core;
mod field;
mod load;

use std::time::Duration;

use anyhow::Result;
use clap::Args;

use field::Field;
use load::{Load, Outcome};

/// The rate to be reached, probes per second.
const GOAL: u32 = 100_000;
/// Nodes and periods that make up the goal.
const LOADS: [(u32, u64); 4] = [(100_000, 1000), (20_000, 200), (5_000, 50), (1_000, 10)];
/// The search for the highest rate probes every node ten times a second.
const SEARCH_PERIOD: Duration = Duration::from_millis(100);
/// By how much it goes up each time, percent.
const SEARCH_STEP: u32 = 10;

/// What to measure.
#[derive(Args)]
pub(crate) struct Options {
    /// How long each load lasts, for example 3s.
    #[arg(long, default_value = "3s")]
    duration: humantime::Duration,
}

/// Runs the bench and prints what it measured.
pub(crate) fn run(options: &Options) -> Result<()> {
    let field = Field::new()?;
    let cost = core::cost(GOAL, field.keys());
    println!("The core alone, {GOAL} nodes, no sockets, ns a probe:");
    println!(
        "  begin the round and make the probe     {:6.0}",
        cost.probe
    );
    println!(
        "  match the reply and tell of it         {:6.0}\n",
        cost.reply
    );

    println!("Probes and replies on one core, {} each:", options.duration);
    println!("{}", Outcome::HEADINGS);
    let mut lost = 0;
    for (nodes, period_ms) in LOADS {
        let load = Load {
            nodes,
            period: Duration::from_millis(period_ms),
        };
        let outcome = load.run(&field, *options.duration)?;
        println!("{outcome}");
        lost += outcome.lost;
    }
    println!("Lost in all: {lost}\n");

    let highest = search(&field, *options.duration)?;
    let blast = blast::rate(&field, *options.duration)?;
    println!("\nHighest rate without a loss              {highest:10.0} probes/s");
    println!("Bare sendmmsg/recvmmsg loop, same probes {blast:10.0} probes/s");
    println!(
        "Prober / bare loop {:.2}, prober / goal {:.1}",
        highest / blast,
        highest / f64::from(GOAL)
    );
    Ok(())
}

/// Raises the load until the prober does not keep up, and returns the last rate at which it did.
fn search(field: &Field, duration: Duration) -> Result<f64> {
    println!("The load goes up until the prober does not keep up:");
    println!("{}", Outcome::HEADINGS);
    let mut nodes = GOAL / (Duration::from_secs(1).as_millis() / SEARCH_PERIOD.as_millis()) as u32;
    let mut highest = 0.0;
    while nodes < field::NODES_MAX {
        let outcome = Load {
            nodes,
            period: SEARCH_PERIOD,
        }
        .run(field, duration)?;
        println!("{outcome}");
        if !outcome.kept_up() {
            break;
        }
        highest = outcome.rate;
        nodes += nodes * SEARCH_STEP / 100;
    }
    Ok(highest)
}
