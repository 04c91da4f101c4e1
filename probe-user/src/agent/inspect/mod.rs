//! `pulsepath-agent inspect`: what the maps say.

mod lease;
mod report;
mod text;
mod tunnels;
mod witness;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use probe_ebpf::wire::NodeId;

use super::beat::boot_now;
use super::cli::Output;
use crate::egress;
use crate::interfaces::Watch;
use crate::kernel::{self, Fence, Maps};
use crate::witness::DutyFile;
use report::Report;
use tunnels::TunnelReport;
use witness::Witness;

/// Shows what the tunnel counters have counted.
pub(super) fn tunnels(pin_dir: &Path, output: Output) -> Result<()> {
    let report = TunnelReport::read(&pinned(pin_dir)?)?;
    match output {
        Output::Text => print!("{report}"),
        Output::Json => println!("{}", serde_json::to_string_pretty(&report)?),
    }
    Ok(())
}

/// The directory of the present layout's pins.
fn pinned(pin_dir: &Path) -> Result<PathBuf> {
    let directory = kernel::version_directory(pin_dir);
    if !directory.exists() {
        bail!(
            "nothing is pinned in {}: no agent has run here, everything was detached, or the agent \
             answers from user space (its metrics tell)",
            directory.display()
        );
    }
    Ok(directory)
}

/// Shows what the maps of the present layout say, which egress IPs the node has, and whose witness it
/// is.
pub(super) async fn inspect(pin_dir: &Path, state_file: &Path, output: Output) -> Result<()> {
    let directory = pinned(pin_dir)?;
    let maps = Maps::open(&directory)?;
    let links = kernel::scan_links(&directory)?;
    let interfaces = Watch::new()?.interfaces().await?;
    let now = boot_now().context("cannot read the boot clock")?;
    let fence = Fence::open(&directory)?;
    let mut report = Report::new(&directory, &maps, &fence, &links, &interfaces, now)?;
    report.egress_ips = egress::found(state_file).await?;
    let own = NodeId(maps.config()?.node_id);
    report.witness = Witness::new(&directory, own, &DutyFile::beside(state_file))?;
    match output {
        Output::Text => print!("{}", text::Text(&report)),
        Output::Json => println!("{}", serde_json::to_string_pretty(&report)?),
    }
    Ok(())
}
