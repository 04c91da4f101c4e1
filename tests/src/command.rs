//! Running commands to their end, and finding the project's own programs.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};

/// Runs `command` to its end and returns what it wrote to standard output.
///
/// # Errors
/// It cannot be started, or it fails; the error then carries what it wrote to standard error.
pub fn run(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("start {command:?}"))?;
    finish(command, output)
}

/// As [`run`], with `input` as standard input.
pub(crate) fn run_with_input(command: &mut Command, input: &str) -> Result<String> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("start {command:?}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    finish(command, output).with_context(|| format!("input was:\n{input}"))
}

fn finish(command: &Command, output: Output) -> Result<String> {
    ensure!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Where the project's programs are: `PULSEPATH_BIN_DIR`, else beside the running executable (the
/// directory above cargo's `deps`).
///
/// # Errors
/// The running executable has no known path.
pub fn bin_dir() -> Result<PathBuf> {
    if let Some(dir) = std::env::var_os("PULSEPATH_BIN_DIR") {
        return Ok(PathBuf::from(dir));
    }
    let executable = std::env::current_exe().context("find the running executable")?;
    let dir = executable.parent().context("executable has no directory")?;
    let dir = if dir.ends_with("deps") {
        dir.parent().unwrap_or(dir)
    } else {
        dir
    };
    Ok(dir.to_path_buf())
}

/// The path of one of the project's programs.
pub(crate) fn program(name: &str) -> Result<PathBuf> {
    let path = bin_dir()?.join(name);
    ensure!(
        path.exists(),
        "{} is not built: run the tests with `cargo xtask test`",
        path.display()
    );
    Ok(path)
}
