//! `pulsepath-agent detach`.

use std::path::Path;

use anyhow::Result;

use crate::kernel;

/// Removes everything from the kernel, and says what it was.
pub(super) fn detach(pin_dir: &Path, force: bool) -> Result<()> {
    let removed = kernel::remove(pin_dir, force)?;
    for path in removed.pins.iter().chain(&removed.directories) {
        println!("removed {}", path.display());
    }
    if removed.pins.is_empty() && removed.directories.is_empty() {
        println!("nothing is pinned in {}", pin_dir.display());
    } else {
        println!("the node answers no probes any more");
    }
    Ok(())
}
