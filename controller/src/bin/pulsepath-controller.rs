//! The controller's daemon.

use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use controller::kubernetes::crds;
use controller::standalone::keygen;
use controller::{daemon, run};

/// Tells for every node whether its dataplane and its agent work.
#[derive(Parser)]
#[command(name = "pulsepath-controller", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Probe the nodes of a configuration file, and show their states over HTTP
    Run(daemon::Options),
    /// Say whether a configuration file is accepted, and do nothing
    Check(daemon::Options),
    /// Make the cluster key or the key of a node, or certificates for the control channel
    Keygen(keygen::Options),
    /// Print the definitions of the custom resources as YAML, for `kubectl apply --server-side -f -`
    Crds(crds::Options),
}

fn main() -> ExitCode {
    match dispatch(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pulsepath-controller: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(command: Command) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    match command {
        Command::Run(options) => runtime.block_on(run::run(options))?,
        Command::Check(options) => {
            daemon::check(&options)?;
            println!("{} is accepted", options.config.display());
        }
        Command::Keygen(options) => {
            for file in runtime.block_on(keygen::keygen(options))? {
                println!("wrote {}", file.display());
            }
        }
        Command::Crds(options) => crds::crds(&options)?,
    }
    Ok(())
}
