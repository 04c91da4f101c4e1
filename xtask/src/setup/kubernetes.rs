//! Kubernetes, for tests and `e2e`: its programs built from their Go module, and from Debian's packages
//! the store below it and the container runtime.
//!
//! Nothing is installed: Debian's packages are only unpacked, so that no service starts, and another
//! container runtime of this machine stays as it is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{go, packages};
use crate::paths::{self, tools};
use crate::shell::{run, say};

/// Debian's packages, each with a file by which it is recognized.
const PACKAGES: [(&str, &str); 4] = [
    ("etcd-server", "usr/bin/etcd"),
    ("containerd", "usr/bin/containerd"),
    ("runc", "usr/sbin/runc"),
    ("containernetworking-plugins", "usr/lib/cni/bridge"),
];

/// What is built from the module in `tests/kubernetes`.
const PROGRAMS: [(&str, &str); 6] = [
    ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
    (
        "kube-controller-manager",
        "k8s.io/kubernetes/cmd/kube-controller-manager",
    ),
    ("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
    ("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
    ("kubelet", "k8s.io/kubernetes/cmd/kubelet"),
    ("pause", "./pause"),
];

/// The module that those come from, as `go.mod` names it.
const MODULE: &str = "k8s.io/kubernetes";

/// The oldest minor version of Go 1 that builds them.
const OLDEST_GO: u32 = 24;

/// Sees to all programs.
pub(crate) fn ensure() -> Result<()> {
    unpack_packages()?;
    build_programs()
}

/// Where the programs are: `bin`, and `debian` as the packages have them.
fn directory() -> PathBuf {
    tools().join("kubernetes")
}

fn unpack_packages() -> Result<()> {
    let root = directory().join("debian");
    let missing: Vec<_> = PACKAGES
        .iter()
        .filter(|(_, file)| !root.join(file).is_file())
        .map(|(package, _)| *package)
        .collect();
    packages::unpack(&missing, &root)
}

fn build_programs() -> Result<()> {
    let module = paths::root().join("tests/kubernetes");
    let bin = directory().join("bin");
    let sums = fs::read(module.join("go.sum")).context("read tests/kubernetes/go.sum")?;
    // The sums are kept beside what was built from them.
    let built_from = bin.join("go.sum");
    let all_there = PROGRAMS.iter().all(|(name, _)| bin.join(name).is_file());
    if all_there && fs::read(&built_from).is_ok_and(|built| built == sums) {
        return Ok(());
    }
    let go = go::find(OLDEST_GO, "Kubernetes")?;
    let version = module_version(&module)?;
    say(&format!(
        "building Kubernetes {version} (up to ten minutes)"
    ));
    fs::create_dir_all(&bin).with_context(|| format!("make {}", bin.display()))?;
    run(&mut build_command(&go, &module, &bin, &version))
        .context("build Kubernetes (is the Go module proxy reachable?)")?;
    fs::write(&built_from, sums).with_context(|| format!("write {}", built_from.display()))
}

fn build_command(go: &Path, module: &Path, bin: &Path, version: &str) -> Command {
    let mut command = Command::new(go);
    command
        .current_dir(module)
        .env("CGO_ENABLED", "0")
        .args(["build", "-trimpath", "-ldflags"])
        .arg(linker_flags(version))
        .arg("-o")
        .arg(bin)
        .args(PROGRAMS.map(|(_, package)| package));
    command
}

/// The version is nowhere but in what the linker is told.
fn linker_flags(version: &str) -> String {
    let packages = [
        "k8s.io/component-base/version",
        "k8s.io/client-go/pkg/version",
    ];
    let numbers = version.trim_start_matches('v').split('.');
    let names = ["gitMajor", "gitMinor"].into_iter().zip(numbers);
    let values: Vec<_> = names.chain([("gitVersion", version)]).collect();
    let set = packages.iter().flat_map(|package| {
        let set = |(name, value): &(&str, &str)| format!(" -X {package}.{name}={value}");
        values.iter().map(set).collect::<Vec<_>>()
    });
    format!("-s -w{}", set.collect::<String>())
}

fn module_version(module: &Path) -> Result<String> {
    let text = fs::read_to_string(module.join("go.mod")).context("read tests/kubernetes/go.mod")?;
    required(&text, MODULE)
        .map(str::to_owned)
        .with_context(|| format!("tests/kubernetes/go.mod requires no {MODULE}"))
}

/// The version of `module` that a `go.mod` requires.
fn required<'a>(go_mod: &'a str, module: &str) -> Option<&'a str> {
    go_mod.lines().find_map(|line| {
        let line = line.trim().trim_start_matches("require ");
        let version = line.strip_prefix(module)?.strip_prefix(' ')?;
        version.split_whitespace().next()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_that_is_required_is_found_alone_or_in_a_block() {
        let module =
            "module m\n\nrequire k8s.io/kubernetes v1.34.4\n\nrequire (\n\tk8s.io/api v0.34.4\n)\n";
        assert_eq!(required(module, "k8s.io/kubernetes"), Some("v1.34.4"));
        assert_eq!(required(module, "k8s.io/api"), Some("v0.34.4"));
        assert_eq!(required(module, "k8s.io/ap"), None);
    }

    #[test]
    fn the_linker_is_told_the_version_and_its_numbers() {
        let flags = linker_flags("v1.34.4");
        assert!(flags.contains("-X k8s.io/component-base/version.gitVersion=v1.34.4"));
        assert!(flags.contains("-X k8s.io/client-go/pkg/version.gitMinor=34"));
        assert!(!flags.contains("=4"), "{flags}");
    }
}
