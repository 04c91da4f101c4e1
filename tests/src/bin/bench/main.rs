//! `cargo xtask bench`: what the reflector and the prober can do, measured here and now.

#![forbid(unsafe_code)]

mod prober;
mod reflector;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Measures the parts that must be fast. Needs root; prints ratios, since figures of one machine
/// say little about another.
#[derive(Parser)]
#[command(name = "pulsepath-bench", version)]
struct Arguments {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// The kernel's answer: ns per probe, and probes per second beside an echo and gRPC.
    Reflector(reflector::Options),
    /// The prober: how many nodes one core can probe, at which rate.
    Prober(prober::Options),
}

fn main() -> Result<()> {
    match Arguments::parse().bench {
        Bench::Reflector(options) => reflector::run(&options),
        Bench::Prober(options) => prober::run(&options),
    }
}
