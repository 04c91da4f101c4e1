//! Removing everything: links, programs, maps, directories.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::KernelError;
use super::{layout, links, preflight};

/// What has been removed.
#[derive(Debug, Default)]
pub struct Removed {
    /// Pins, in the order in which they were removed: links first, so that no packet meets a
    /// program without its maps.
    pub pins: Vec<PathBuf>,
    /// Directories.
    pub directories: Vec<PathBuf>,
}

/// Removes everything that any version has pinned below `pin_dir`, and the directory itself.
/// Unless `force` is set, an agent that runs is respected.
pub fn remove(pin_dir: &Path, force: bool) -> Result<Removed, KernelError> {
    let mut removed = Removed::default();
    if !pin_dir.exists() {
        return Ok(removed);
    }
    preflight::check_file_system(pin_dir)?;
    let lock = match layout::lock(pin_dir) {
        Ok(lock) => Some(lock),
        Err(KernelError::Locked { .. }) if force => None,
        Err(error) => return Err(error),
    };
    for (_, directory) in layout::versions(pin_dir)? {
        let this = remove_directory(&directory)?;
        removed.pins.extend(this.pins);
        removed.directories.extend(this.directories);
    }
    match fs::remove_dir(pin_dir) {
        Ok(()) => removed.directories.push(pin_dir.to_owned()),
        // Somebody else's pins lie there, too.
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
        Err(error) => return Err(KernelError::file("remove", pin_dir)(error)),
    }
    drop(lock);
    Ok(removed)
}

/// Removes one version's directory with all its pins.
pub(super) fn remove_directory(directory: &Path) -> Result<Removed, KernelError> {
    let list = || -> io::Result<Vec<PathBuf>> {
        fs::read_dir(directory)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect()
    };
    let mut pins = list().map_err(KernelError::file("list", directory))?;
    // "link_..." and "reflect_..." are lower case: links, then programs, then maps.
    pins.sort_by_key(|path| {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        (
            !name.starts_with("link_"),
            !name.starts_with(|c: char| c.is_ascii_lowercase()),
            name,
        )
    });
    for pin in &pins {
        if links::is_link(pin) {
            links::remove(pin)?;
        } else {
            fs::remove_file(pin).map_err(KernelError::file("remove", pin))?;
        }
    }
    fs::remove_dir(directory).map_err(KernelError::file("remove", directory))?;
    Ok(Removed {
        pins,
        directories: vec![directory.to_owned()],
    })
}
