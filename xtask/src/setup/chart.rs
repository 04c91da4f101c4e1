//! What checks and installs the Helm chart in tests: Helm, built from its Go module, and Prometheus's
//! promtool, unpacked from Debian's package, so that no server starts.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::{go, packages};
use crate::paths::tools;
use crate::shell::{run, say};

const HELM: &str = "helm.sh/helm/v4/cmd/helm";
const HELM_VERSION: &str = "v4.3.1";
/// The oldest minor version of Go 1 that builds it.
const OLDEST_GO: u32 = 26;

const PROMETHEUS: &str = "prometheus";
const PROMTOOL: &str = "usr/bin/promtool";

/// Sees to both.
pub(crate) fn ensure() -> Result<()> {
    unpack_promtool()?;
    build_helm()
}

fn unpack_promtool() -> Result<()> {
    let root = tools().join(PROMETHEUS);
    if root.join(PROMTOOL).is_file() {
        return Ok(());
    }
    packages::unpack(&[PROMETHEUS], &root)
}

fn build_helm() -> Result<()> {
    let bin = directory();
    // The version is kept beside what was built of it.
    let built_of = bin.join("version");
    let is_current = fs::read_to_string(&built_of).is_ok_and(|built| built == HELM_VERSION);
    if is_current && bin.join("helm").is_file() {
        return Ok(());
    }
    say(&format!(
        "building Helm {HELM_VERSION} (about three minutes)"
    ));
    run(Command::new(go::find(OLDEST_GO, "Helm")?)
        .env("CGO_ENABLED", "0")
        .env("GOBIN", &bin)
        .args(["install", "-trimpath", "-ldflags", "-s -w"])
        .arg(format!("{HELM}@{HELM_VERSION}")))
    .context("build Helm (is the Go module proxy reachable?)")?;
    fs::write(&built_of, HELM_VERSION).with_context(|| format!("write {}", built_of.display()))
}

fn directory() -> PathBuf {
    tools().join("helm")
}
