//! The kernel programs' objects, and the workspace's binaries.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::paths;
use crate::setup::{Core, Purpose, Toolchain, setup};
use crate::shell::{cargo, cargo_without_compiler, output, run, say};

const TARGET: &str = "bpfel-unknown-none";

/// The binaries of `probe-ebpf`, and the objects that become of them.
const OBJECTS: [(&str, &str); 2] = [
    ("pulsepath-ebpf", "pulsepath.o"),
    ("pulsepath-bench-ebpf", "pulsepath-bench.o"),
];

/// `--btf` keeps the types for bpftool; misaligned access because packet fields stand where they
/// stand.
const KERNEL_FLAGS: [&str; 4] = [
    "-Cdebuginfo=2",
    "-Clink-arg=--btf",
    "-Ctarget-cpu=v3",
    "-Clink-arg=--cpu-features=+allows-misaligned-mem-access",
];

/// Separates flags in `CARGO_ENCODED_RUSTFLAGS`.
const FLAG_SEPARATOR: &str = "\x1f";

/// How the binaries are built. The kernel programs are always optimized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// For tests.
    Debug,
    /// For use.
    Release,
}

impl Profile {
    pub(crate) fn new(release: bool) -> Self {
        if release { Self::Release } else { Self::Debug }
    }

    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Debug => &[],
            Self::Release => &["--release"],
        }
    }

    fn directory(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Release => "release",
        }
    }
}

/// Sets up for `purpose`, builds everything, and returns the directory of the binaries.
pub(crate) fn build(profile: Profile, purpose: Purpose) -> Result<PathBuf> {
    let toolchain = setup(purpose.max(Purpose::Build))?;
    build_kernel_programs(&toolchain)?;
    say("building the binaries");
    run(cargo()
        .current_dir(paths::root())
        .args(["build", "--workspace", "--exclude", "xtask", "--bins"])
        .args(profile.flags())
        .arg("--target-dir")
        .arg(paths::target()))?;
    Ok(paths::target().join(profile.directory()))
}

/// Builds the kernel programs' objects.
pub(crate) fn build_kernel_programs(toolchain: &Toolchain) -> Result<()> {
    say("building the kernel programs");
    let bpf = paths::bpf();
    run(&mut kernel_build(toolchain, &bpf)).context("build the kernel programs")?;
    for (binary, object) in OBJECTS {
        let built = bpf.join(TARGET).join("release").join(binary);
        strip(&toolchain.strip, &built, &bpf.join(object))?;
    }
    Ok(())
}

fn kernel_build(toolchain: &Toolchain, target_dir: &Path) -> Command {
    let Toolchain {
        compiler, linker, ..
    } = toolchain;
    let mut command = cargo_without_compiler(compiler.cargo());
    command
        .current_dir(paths::root())
        .args([
            "build",
            "--package",
            "probe-ebpf",
            "--bins",
            "--release",
            "--target",
            TARGET,
        ])
        .arg("--target-dir")
        .arg(target_dir)
        .env("RUSTC", compiler.rustc())
        .env("CARGO_ENCODED_RUSTFLAGS", KERNEL_FLAGS.join(FLAG_SEPARATOR))
        .env("CARGO_TARGET_BPFEL_UNKNOWN_NONE_LINKER", linker);
    match compiler.core() {
        Core::FromSource => command.arg("-Zbuild-std=core"),
        // aya-ebpf uses unstable features; nothing else may.
        Core::Prebuilt => command.env("RUSTC_BOOTSTRAP", "aya_ebpf,probe_ebpf"),
    };
    command
}

/// Writes `built` without its debug information (not the BTF) to `object`; left alone if nothing
/// changed, so that what embeds it is not built again.
fn strip(strip: &Path, built: &Path, object: &Path) -> Result<()> {
    let stripped = object.with_extension("new");
    output(
        Command::new(strip)
            .arg("-g")
            .arg("-o")
            .arg(&stripped)
            .arg(built),
    )?;
    if fs::read(&stripped).ok() == fs::read(object).ok() {
        return fs::remove_file(&stripped).with_context(|| format!("{}", stripped.display()));
    }
    fs::rename(&stripped, object).with_context(|| format!("write {}", object.display()))
}
