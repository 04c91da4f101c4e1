//! The definitions of the custom resources, made from the controller's types and kept in the chart.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::paths;
use crate::shell::{cargo, run};

/// Writes them into the chart.
pub(crate) fn write() -> Result<()> {
    write_to(&chart())
}

/// Whether the chart has those that the code makes.
pub(crate) fn check() -> Result<()> {
    let made = paths::target().join("crds");
    write_to(&made)?;
    for entry in fs::read_dir(&made).with_context(|| format!("cannot list {}", made.display()))? {
        let made = entry?.path();
        let kept = chart().join(made.file_name().unwrap_or_default());
        if fs::read(&kept).ok() != Some(fs::read(&made)?) {
            bail!("{} is out of date: run `cargo xtask crds`", kept.display());
        }
    }
    Ok(())
}

fn chart() -> PathBuf {
    paths::root().join("charts/pulsepath/files/crds")
}

fn write_to(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    run(cargo()
        .current_dir(paths::root())
        .args(["run", "--quiet", "--package", "controller"])
        .args(["--bin", "pulsepath-controller", "--target-dir"])
        .arg(paths::target())
        .args(["--", "crds", "--dir"])
        .arg(dir))
}
