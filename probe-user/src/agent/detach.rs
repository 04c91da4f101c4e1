//! `pulsepath-agent detach`.

use std::path::Path;
use std::{fs, io};

use anyhow::{Context, Result};

use crate::egress;
use crate::kernel::Removal;
use crate::tunnels::NamesFile;
use crate::witness::DutyFile;

/// Removes everything from the kernel, and says what it was: the egress IPs first, since the fence
/// that goes with the rest must not leave them unguarded.
pub(super) async fn detach(pin_dir: &Path, state_file: &Path, force: bool) -> Result<()> {
    let removal = Removal::begin(pin_dir, force)?;
    let egress = egress::remove(state_file).await?;
    for (address, interface) in &egress.addresses {
        println!("removed egress IP {address} from {interface}, with its rules and flows");
    }
    for sysctl in &egress.sysctls {
        println!("put back sysctl {}", sysctl.replace('/', "."));
    }
    let duty = DutyFile::beside(state_file);
    if duty.remove()? {
        println!("removed the duty as a witness, {}", duty.path().display());
    }
    let names = NamesFile::beside(state_file);
    if names.remove()? {
        println!("removed the nodes' names, {}", names.path().display());
    }
    let removed = removal.finish()?;
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

/// Removes the node's key, if there is one.
pub(super) fn forget_key(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Ok(()) => println!("removed the node's key, {}", path.display()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("remove {}", path.display())),
    }
    Ok(())
}
