//! Removing everything: links, programs, maps, directories.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use nix::fcntl::Flock;

use super::error::KernelError;
use super::{clsact, layout, links, preflight};

/// What has been removed.
#[derive(Debug, Default)]
pub struct Removed {
    /// Pins, in the order in which they were removed: links first, so that no packet meets a
    /// program without its maps.
    pub pins: Vec<PathBuf>,
    /// Directories.
    pub directories: Vec<PathBuf>,
}

/// The right to remove everything that any version has pinned below a directory.
///
/// Two steps, so that what the fence guards can go between them: an address that the node still has
/// must not be without its guard.
pub struct Removal {
    pin_dir: PathBuf,
    _lock: Option<Flock<File>>,
}

impl Removal {
    /// Unless `force` is set, an agent that runs is respected.
    pub fn begin(pin_dir: &Path, force: bool) -> Result<Self, KernelError> {
        let mut removal = Self {
            pin_dir: pin_dir.to_owned(),
            _lock: None,
        };
        if pin_dir.exists() {
            preflight::check_file_system(pin_dir)?;
            removal._lock = match layout::lock(pin_dir) {
                Ok(lock) => Some(lock),
                Err(KernelError::Locked { .. }) if force => None,
                Err(error) => return Err(error),
            };
        }
        Ok(removal)
    }

    /// Removes everything, and the directory itself.
    pub fn finish(self) -> Result<Removed, KernelError> {
        let mut removed = Removed::default();
        if !self.pin_dir.exists() {
            return Ok(removed);
        }
        for (_, directory) in layout::versions(&self.pin_dir)? {
            let this = remove_directory(&directory)?;
            removed.pins.extend(this.pins);
            removed.directories.extend(this.directories);
        }
        match fs::remove_dir(&self.pin_dir) {
            Ok(()) => removed.directories.push(self.pin_dir),
            // Somebody else's pins lie there, too.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            Err(error) => return Err(KernelError::file("remove", &self.pin_dir)(error)),
        }
        Ok(removed)
    }
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
        } else if let Some(filter) = clsact::parse(pin.clone()) {
            clsact::remove(&filter)?;
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
