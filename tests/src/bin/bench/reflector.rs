//! The bench of the reflector.

use anyhow::{Result, bail};
use clap::Args;

/// What to measure.
#[derive(Args)]
pub(crate) struct Options {}

/// Runs the bench and prints what it measured.
pub(crate) fn run(_options: &Options) -> Result<()> {
    bail!("the bench of the reflector has not been written yet")
}
