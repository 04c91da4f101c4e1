//! Kubernetes' own programs, as `cargo xtask setup --tests` puts them here.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/tools");

/// Where Debian's packages are unpacked.
pub(super) fn debian() -> PathBuf {
    Path::new(TOOLS).join("kubernetes/debian")
}

/// Where those of Kubernetes itself are.
pub(super) fn bin() -> PathBuf {
    Path::new(TOOLS).join("kubernetes/bin")
}

/// The path of `name`, below one of those.
pub(super) fn existing(path: PathBuf) -> Result<PathBuf> {
    ensure!(
        path.is_file(),
        "{} is missing: run `cargo xtask setup --tests`",
        path.display()
    );
    Ok(path)
}

/// Where kubectl is, for people.
pub fn kubectl_path() -> PathBuf {
    bin().join("kubectl")
}

/// Kubernetes' program `name`.
pub(super) fn kubernetes(name: &str) -> Result<PathBuf> {
    existing(bin().join(name))
}

/// The store below the API server.
pub(super) fn etcd() -> Result<PathBuf> {
    existing(debian().join("usr/bin/etcd"))
}

/// Helm.
pub(super) fn helm() -> Result<PathBuf> {
    existing(Path::new(TOOLS).join("helm/helm"))
}
