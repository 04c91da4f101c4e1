//! `pulsepath-agent detach`.

use std::path::Path;

use anyhow::Result;

use crate::{egress, kernel};

/// Removes everything from the kernel, and says what it was.
pub(super) async fn detach(pin_dir: &Path, state_file: &Path, force: bool) -> Result<()> {
    let removed = kernel::remove(pin_dir, force)?;
    for path in removed.pins.iter().chain(&removed.directories) {
        println!("removed {}", path.display());
    }
    if removed.pins.is_empty() && removed.directories.is_empty() {
        println!("nothing is pinned in {}", pin_dir.display());
    } else {
        println!("the node answers no probes any more");
    }
    let removed = egress::remove(state_file).await?;
    for (address, interface) in &removed.addresses {
        println!("removed egress IP {address} from {interface}, with its rules and flows");
    }
    for sysctl in &removed.sysctls {
        println!("put back sysctl {}", sysctl.replace('/', "."));
    }
    Ok(())
}
