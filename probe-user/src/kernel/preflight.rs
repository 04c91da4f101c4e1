//! What must hold before anything is loaded.

use std::fs;
use std::path::Path;

use nix::sys::resource::{RLIM_INFINITY, Resource, setrlimit};
use nix::sys::statfs::{self, FsType};
use tracing::debug;

use super::cause::is_before;
use super::error::KernelError;
use super::kernel_programs;

/// BPF_FS_MAGIC of `linux/magic.h`.
const BPF_FS: FsType = FsType(0xcafe_4a11);

pub(super) fn check(pin_dir: &Path) -> Result<(), KernelError> {
    if !kernel_programs::is_built_in() {
        return Err(KernelError::NotBuiltIn);
    }
    check_file_system(pin_dir)?;
    raise_memory_lock();
    Ok(())
}

/// Checks that `pin_dir`, or the nearest directory above that exists, is on a BPF file system.
pub(super) fn check_file_system(pin_dir: &Path) -> Result<(), KernelError> {
    let missing = || KernelError::NoBpfFileSystem {
        path: pin_dir.to_owned(),
    };
    let existing = pin_dir
        .ancestors()
        .find(|path| path.exists())
        .ok_or_else(missing)?;
    let found = statfs::statfs(existing)
        .map_err(|error| KernelError::file("examine", existing)(error.into()))?;
    if found.filesystem_type() == BPF_FS {
        Ok(())
    } else {
        Err(missing())
    }
}

/// Kernels before 5.11 count maps against RLIMIT_MEMLOCK
/// (<https://git.kernel.org/torvalds/c/d5299b67dd59>). If it cannot be raised, loading tells.
fn raise_memory_lock() {
    if !is_before(5, 11) {
        return;
    }
    if let Err(error) = setrlimit(Resource::RLIMIT_MEMLOCK, RLIM_INFINITY, RLIM_INFINITY) {
        debug!(%error, "RLIMIT_MEMLOCK cannot be raised");
    }
}

const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// Whether this process has the capabilities with which the verifier judges programs by their
/// merits alone.
pub(super) fn may_load_programs() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    let has = |capability: u32| effective.is_some_and(|effective| effective >> capability & 1 == 1);
    has(CAP_SYS_ADMIN) || (has(CAP_BPF) && has(CAP_PERFMON))
}
