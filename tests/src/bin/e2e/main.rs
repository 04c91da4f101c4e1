//! `cargo xtask e2e`: Pulsepath in a real Kubernetes cluster on this machine, installed by Helm; what
//! happens to it, and what a client behind an egress IP notices.
//!
//! `story` says what happens, `keep` is for a look around afterwards.

#![forbid(unsafe_code)]

mod keep;
mod story;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use clap::Parser;
use pulsepath_tests::Signal;
use pulsepath_tests::kubernetes::Installation;

use crate::story::Story;

/// Shows Pulsepath in a real Kubernetes cluster on this machine.
#[derive(Parser)]
#[command(name = "pulsepath-e2e", version)]
struct Arguments {
    /// Leaves everything running until Ctrl-C, and says how to use kubectl with it.
    #[arg(long)]
    keep: bool,
}

/// Two nodes that may own egress IPs, two for controllers.
const NODES: u8 = 4;

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    println!("{NODES} nodes with kubelets, etcd, an API server and its companions, and the chart");
    let mut installation = Installation::start("e2e", NODES)?;
    let mut story = Story::new(&mut installation);
    let told = story.tell();
    let all_right = story.report().all_right();
    println!("\n{}", story.report());
    if told.is_err() || !all_right {
        println!("{}", installation.report());
    }
    told?;
    if arguments.keep {
        let interrupted = interruptible()?;
        keep::invite(&installation);
        keep::wait(&interrupted);
    }
    Ok(if all_right {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// What becomes true with Ctrl-C. Before this is asked for, Ctrl-C ends the program at once, and its
/// next run removes what it left.
fn interruptible() -> Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        signal_hook::flag::register(signal as i32, Arc::clone(&interrupted))
            .with_context(|| format!("handle {signal}"))?;
    }
    Ok(interrupted)
}
