//! `pulsepath-agent inspect`: what the maps say.

mod lease;
mod report;
mod text;

use std::path::Path;

use anyhow::{Context, Result, bail};

use super::beat::boot_now;
use super::cli::Output;
use crate::egress;
use crate::interfaces::Watch;
use crate::kernel::{self, Fence, Maps};
use report::Report;

/// Shows what the maps of the present layout say, and which egress IPs the node has.
pub(super) async fn inspect(pin_dir: &Path, state_file: &Path, output: Output) -> Result<()> {
    let directory = kernel::version_directory(pin_dir);
    if !directory.exists() {
        bail!(
            "nothing is pinned in {}: no agent has run here, everything was detached, or the agent \
             answers from user space (its metrics tell)",
            directory.display()
        );
    }
    let maps = Maps::open(&directory)?;
    let links = kernel::scan_links(&directory)?;
    let interfaces = Watch::new()?.interfaces().await?;
    let now = boot_now().context("cannot read the boot clock")?;
    let fence = Fence::open(&directory)?;
    let mut report = Report::new(&directory, &maps, &fence, &links, &interfaces, now)?;
    report.egress_ips = egress::found(state_file).await?;
    match output {
        Output::Text => print!("{}", text::Text(&report)),
        Output::Json => println!("{}", serde_json::to_string_pretty(&report)?),
    }
    Ok(())
}
