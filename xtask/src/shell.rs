//! Running programs, as oneself and as root.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::paths::find_program;

/// What an outer cargo, or the user, may have set for another compiler than the one that a nested
/// build names itself. `RUSTUP_TOOLCHAIN` is not among them: without it rustup obeys the
/// `rust-toolchain.toml` that some crates ship, and begins to install toolchains.
const COMPILER_VARIABLES: [&str; 7] = [
    "RUSTC",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_TARGET_DIR",
    "LD_LIBRARY_PATH",
];

/// Tells what is being done.
pub(crate) fn say(what: &str) {
    eprintln!("xtask: {what}");
}

/// The cargo that runs this.
pub(crate) fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// `cargo`, or the one that runs this, free of everything that names a compiler.
pub(crate) fn cargo_without_compiler(cargo: Option<PathBuf>) -> Command {
    let mut command = cargo.map_or_else(self::cargo, Command::new);
    for variable in COMPILER_VARIABLES {
        command.env_remove(variable);
    }
    command
}

/// Runs `command`; what it writes is seen.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("start {}", describe(command)))?;
    ensure!(status.success(), "{} failed: {status}", describe(command));
    Ok(())
}

/// Runs `command` unseen and returns what it wrote to standard output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("start {}", describe(command)))?;
    ensure!(
        output.status.success(),
        "{} failed: {}\n{}",
        describe(command),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Becomes `command`, so that Ctrl-C and the exit status are its own. Returns only on failure.
pub(crate) fn become_command(command: &mut Command) -> Result<()> {
    let error = command.exec();
    Err(error).with_context(|| format!("start {}", describe(command)))
}

/// `program` as root: as it is, or through sudo with the environment kept.
pub(crate) fn as_root(program: impl AsRef<OsStr>) -> Result<Command> {
    let Some(sudo) = sudo()? else {
        return Ok(Command::new(program));
    };
    let mut command = Command::new(sudo);
    command.arg("--preserve-env").arg("--").arg(program);
    Ok(command)
}

/// What must stand before a command to run it as root: nothing for root, else the path of sudo.
pub(crate) fn sudo() -> Result<Option<PathBuf>> {
    if is_root()? {
        return Ok(None);
    }
    match find_program("sudo") {
        Some(sudo) => Ok(Some(sudo)),
        None => bail!("this needs root: run it as root, or install sudo"),
    }
}

fn is_root() -> Result<bool> {
    // A process's directory belongs to its effective user.
    Ok(fs::metadata("/proc/self").context("read /proc/self")?.uid() == 0)
}

fn describe(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(OsStr::to_string_lossy)
        .collect::<Vec<_>>()
        .join(" ")
}
