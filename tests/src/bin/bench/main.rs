//! `cargo xtask bench`: what the parts can do, and what a client notices, measured here and now.

#![forbid(unsafe_code)]

mod fencing;
mod loss;
mod outage;
mod prober;
mod reflector;
mod tunnels;

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
    /// The client's outage when its egress IP moves, beside keepalived; and that restarts of
    /// agents cost nothing.
    Outage(outage::Options),
    /// The tunnel counters: ns per packet, and TCP's throughput through VXLAN with and without them.
    Tunnels(tunnels::Options),
    /// In simulated hours: false failovers and lapses of leases where packets are lost.
    Loss(loss::Options),
    /// Whether there are ever two owners of an egress IP, whatever goes wrong.
    Fencing(fencing::Options),
}

fn main() -> Result<()> {
    match Arguments::parse().bench {
        Bench::Reflector(options) => reflector::run(&options),
        Bench::Prober(options) => prober::run(&options),
        Bench::Outage(options) => outage::run(&options),
        Bench::Tunnels(options) => tunnels::run(&options),
        Bench::Loss(options) => loss::run(&options),
        Bench::Fencing(options) => fencing::run(&options),
    }
}
