//! The node's agent.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use probe_user::agent::cli;

fn main() -> ExitCode {
    match cli::main(cli::Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pulsepath-agent: {error:#}");
            ExitCode::FAILURE
        }
    }
}
