//! What is done with the binaries: checks, tests, demo, benches.

use std::process::Command;

use anyhow::{Context, Result};

use crate::build::{Profile, build};
use crate::setup::Purpose;
use crate::shell::{as_root, become_command, cargo, output, run, say, sudo};
use crate::{crds, paths};

/// Formatting, lints, and the chart's custom resources. Needs no BPF toolchain.
pub(crate) fn check() -> Result<()> {
    run(cargo()
        .current_dir(paths::root())
        .args(["fmt", "--all", "--check"]))?;
    run(cargo()
        .current_dir(paths::root())
        .args(["clippy", "--workspace", "--all-targets", "--target-dir"])
        .arg(paths::target())
        .args(["--", "-D", "warnings"]))?;
    crds::check()
}

/// Builds everything and becomes `cargo test`, with `arguments`.
pub(crate) fn test(arguments: &[String]) -> Result<()> {
    let binaries = build(Profile::Debug, Purpose::Test)?;
    let mut command = cargo();
    command
        .current_dir(paths::root())
        .args(["test", "--workspace", "--target-dir"])
        .arg(paths::target())
        .args(arguments)
        .env("PULSEPATH_BIN_DIR", binaries);
    if let Some(sudo) = sudo()? {
        // Only the test programs run as root, so that what cargo builds stays the user's own.
        let runner = format!("{} --preserve-env --", sudo.display());
        command.env(runner_variable(&host()?), runner);
    }
    say("testing");
    become_command(&mut command)
}

/// Builds everything and becomes the demo.
pub(crate) fn demo(keep: bool, clean: bool) -> Result<()> {
    let binaries = build(Profile::Release, Purpose::Run)?;
    let mut command = as_root(binaries.join("pulsepath-demo"))?;
    command
        .arg("--output")
        .arg(paths::root().join("target/demo"));
    if keep {
        command.arg("--keep");
    }
    if clean {
        command.arg("--clean");
    }
    become_command(&mut command)
}

/// Builds everything and becomes the story in a Kubernetes cluster.
pub(crate) fn e2e(keep: bool) -> Result<()> {
    let binaries = build(Profile::Release, Purpose::Test)?;
    let mut command = as_root(binaries.join("pulsepath-e2e"))?;
    if keep {
        command.arg("--keep");
    }
    become_command(&mut command)
}

/// Builds everything and becomes the bench that `arguments` name.
pub(crate) fn bench(arguments: &[String]) -> Result<()> {
    let binaries = build(Profile::Release, Purpose::Test)?;
    become_command(as_root(binaries.join("pulsepath-bench"))?.args(arguments))
}

/// The triple that cargo builds for.
fn host() -> Result<String> {
    let text = output(Command::new("rustc").arg("-vV"))?;
    text.lines()
        .find_map(|line| line.strip_prefix("host: "))
        .map(str::to_owned)
        .context("`rustc -vV` names no host")
}

/// The variable that tells cargo how to start what it built for `triple`.
fn runner_variable(triple: &str) -> String {
    format!(
        "CARGO_TARGET_{}_RUNNER",
        triple.to_uppercase().replace('-', "_")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runner_variable_is_spelled_as_cargo_wants_it() {
        assert_eq!(
            runner_variable("x86_64-unknown-linux-gnu"),
            "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER"
        );
    }
}
