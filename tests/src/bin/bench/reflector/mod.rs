//! The bench of the reflector: what one probe costs the kernel, and how many a second it answers
//! beside a user-space UDP echo and a gRPC health server, over one veth, in one run.

mod echo;
mod grpc;
mod programs;
mod wire;

use std::time::Duration;

use anyhow::Result;
use clap::Args;

use programs::Programs;
use wire::Wire;

/// What to measure.
#[derive(Args)]
pub(crate) struct Options {
    /// How long each server is loaded, for example 2s.
    #[arg(long, default_value = "2s")]
    duration: humantime::Duration,
}

/// Runs the bench and prints what it measured.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut programs = Programs::load()?;
    cost(&programs)?;
    rates(&mut programs, *options.duration)
}

fn cost(programs: &Programs) -> Result<()> {
    let times = programs.time()?;
    println!(
        "Cost of a frame by BPF_PROG_TEST_RUN, ns, median of {}:",
        programs::ROUNDS
    );
    println!("  bare XDP_TX program                 {:6.1}", times.bare);
    println!("  two MACs over 96 bytes, alone       {:6.1}", times.macs);
    println!("  authenticated probe, answered       {:6.1}", times.probe);
    println!(
        "  probe / bare {:.1}, probe / two MACs {:.2}, probe without its MACs {:.1} ns",
        times.probe / times.bare,
        times.probe / times.macs,
        times.probe - times.macs + times.bare,
    );
    println!(
        "  (less {:.1} ns each for putting the frame back before every run)\n",
        times.restore
    );
    Ok(())
}

fn rates(programs: &mut Programs, duration: Duration) -> Result<()> {
    let wire = Wire::new()?;
    println!(
        "Answers per second over a veth, {} each:",
        humantime::format_duration(duration)
    );
    let grpc = grpc::rate(&wire, duration)?;
    println!("  gRPC health server (tonic), h2load  {:10.0}", grpc);
    let echo = echo::rate(&wire, programs, duration)?;
    println!("  UDP echo (recvmmsg, sendmmsg)       {:10.0}", echo);
    let reflector = wire.reflector_rate(programs, duration)?;
    println!("  reflector (native XDP)              {:10.0}", reflector);
    println!(
        "  reflector / echo {:.1}, reflector / gRPC {:.1}",
        reflector / echo,
        reflector / grpc
    );
    Ok(())
}
