//! The pin directory: one subdirectory per layout version, and the lock.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::linux::fs::MetadataExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use probe_ebpf::maps::LAYOUT_VERSION;

use super::error::KernelError;

/// Directory of the present layout's pins below `pin_dir`.
pub fn version_directory(pin_dir: &Path) -> PathBuf {
    pin_dir.join(format!("v{LAYOUT_VERSION}"))
}

/// Takes the lock of a pin directory that exists.
pub(super) fn lock(pin_dir: &Path) -> Result<Flock<File>, KernelError> {
    let directory = File::open(pin_dir).map_err(KernelError::file("open", pin_dir))?;
    Flock::lock(directory, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| match error {
        nix::Error::EWOULDBLOCK => KernelError::Locked {
            pin_dir: pin_dir.to_owned(),
            holder: holder(pin_dir),
        },
        error => KernelError::file("lock", pin_dir)(error.into()),
    })
}

/// Every version below `pin_dir`, oldest first.
pub(super) fn versions(pin_dir: &Path) -> Result<Vec<(u32, PathBuf)>, KernelError> {
    let read = || -> io::Result<Vec<(u32, PathBuf)>> {
        let mut versions = Vec::new();
        for entry in fs::read_dir(pin_dir)? {
            let entry = entry?;
            let name = entry.file_name();
            let number = name
                .to_str()
                .and_then(|name| name.strip_prefix('v')?.parse().ok());
            if let Some(version) = number {
                versions.push((version, entry.path()));
            }
        }
        versions.sort();
        Ok(versions)
    };
    read().map_err(KernelError::file("list", pin_dir))
}

/// A pin directory that is locked for this process.
pub(super) struct Layout {
    pin_dir: PathBuf,
    directory: PathBuf,
    /// Identity of `directory`: one of the same name may be another.
    inode: u64,
    _lock: Flock<File>,
}

impl Layout {
    /// Makes the directories if they are missing, takes the lock, and refuses pins of a newer
    /// version.
    pub(super) fn lock(pin_dir: &Path) -> Result<Self, KernelError> {
        make_directory(pin_dir)?;
        let lock = lock(pin_dir)?;
        if let Some((found, _)) = versions(pin_dir)?
            .pop()
            .filter(|(v, _)| *v > LAYOUT_VERSION)
        {
            let pin_dir = pin_dir.to_owned();
            return Err(KernelError::NewerLayout {
                pin_dir,
                found,
                known: LAYOUT_VERSION,
            });
        }
        let directory = version_directory(pin_dir);
        make_directory(&directory)?;
        let inode = inode(&directory).map_err(KernelError::file("examine", &directory))?;
        Ok(Self {
            pin_dir: pin_dir.to_owned(),
            directory,
            inode,
            _lock: lock,
        })
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn is_in_place(&self) -> bool {
        inode(&self.directory).is_ok_and(|inode| inode == self.inode)
    }

    /// Directories of older versions, oldest first.
    pub(super) fn older_versions(&self) -> Result<Vec<PathBuf>, KernelError> {
        let versions = versions(&self.pin_dir)?;
        let older = versions
            .into_iter()
            .filter(|(version, _)| *version < LAYOUT_VERSION);
        Ok(older.map(|(_, directory)| directory).collect())
    }
}

fn inode(path: &Path) -> io::Result<u64> {
    fs::metadata(path).map(|metadata| metadata.st_ino())
}

fn make_directory(path: &Path) -> Result<(), KernelError> {
    // The maps hold the node's keys.
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(KernelError::file("create directory", path))
}

/// The process that holds the lock, as far as this PID namespace shows it.
fn holder(pin_dir: &Path) -> Option<u32> {
    let inode = inode(pin_dir).ok()?;
    let locks = fs::read_to_string("/proc/locks").ok()?;
    // 1: FLOCK  ADVISORY  WRITE 31655 00:27:74316 0 EOF
    locks.lines().find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let is_flock = fields.next()? == "FLOCK";
        let pid = fields.nth(2)?.parse().ok()?;
        let file = fields.next()?.rsplit(':').next()?.parse::<u64>().ok()?;
        (is_flock && file == inode).then_some(pid)
    })
}
