//! The node's agent.

#![forbid(unsafe_code)]

use clap::Parser;
use probe_user::agent::cli;

fn main() -> anyhow::Result<()> {
    cli::main(cli::Arguments::parse())
}
