//! Directories below bpffs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::leftovers::BPFFS;
use crate::unique;

/// A directory of pin directories below bpffs, removed on drop with all that is in it.
#[derive(Debug)]
pub struct PinDir(PathBuf);

impl PinDir {
    /// Makes one whose name contains `purpose`.
    ///
    /// # Errors
    /// No bpffs is mounted at `/sys/fs/bpf`.
    pub fn new(purpose: &str) -> Result<Self> {
        let dir = Path::new(BPFFS).join(unique::name(purpose));
        // Elsewhere than on bpffs the directory would be made, too, and every pin would fail.
        let mounts = fs::read_to_string("/proc/mounts").context("read /proc/mounts")?;
        ensure!(
            mounts
                .lines()
                .any(|line| line.split(' ').nth(1) == Some(BPFFS)),
            "no bpffs at {BPFFS}: run `cargo xtask setup`, or `mount -t bpf bpf {BPFFS}`"
        );
        fs::create_dir(&dir).with_context(|| format!("create {}", dir.display()))?;
        Ok(Self(dir))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PinDir {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("pins in {} stay behind: {error}", self.0.display());
        }
    }
}
