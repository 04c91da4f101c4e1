//! Where things are.

use std::env;
use std::path::{Path, PathBuf};

/// The workspace's root.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Cargo's directory for the workspace's binaries.
pub(crate) fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Where the kernel programs are built and where `probe-user` looks for their object.
pub(crate) fn bpf() -> PathBuf {
    root().join("target/bpf")
}

/// Where `cargo install` puts the programs that only this project uses.
pub(crate) fn tools() -> PathBuf {
    root().join("target/tools")
}

/// The first directory of `PATH`, or of those where Debian keeps root's programs, that has
/// `program`.
pub(crate) fn find_program(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|dir| dir.join(program))
        .find(|candidate| candidate.is_file())
}
