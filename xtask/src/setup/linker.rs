//! The bpf-linker that fits a compiler.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::compiler::LlvmMajor;
use crate::paths::{find_program, tools};
use crate::shell::{cargo_without_compiler, output, run, say};

const VERSION: &str = "0.13.0";
/// The LLVMs that this version can be built for.
const LLVMS: std::ops::RangeInclusive<u32> = 21..=23;

/// A bpf-linker of the right version for `llvm`: the project's own, or the one in `PATH`.
pub(crate) fn find(llvm: LlvmMajor) -> Result<Option<PathBuf>> {
    let candidates = [Some(own()), find_program("bpf-linker")];
    for candidate in candidates
        .into_iter()
        .flatten()
        .filter(|path| path.is_file())
    {
        if fits(&candidate, llvm)? {
            return Ok(Some(candidate));
        }
    }
    Ok(None)
}

/// Whether a bpf-linker can be built for `llvm`, if its package is installed.
pub(crate) fn supports(llvm: LlvmMajor) -> bool {
    LLVMS.contains(&llvm.0)
}

/// Builds the project's own for `llvm`, whose package must be installed.
pub(crate) fn build(llvm: LlvmMajor) -> Result<PathBuf> {
    ensure!(
        supports(llvm),
        "bpf-linker {VERSION} cannot be built for LLVM {}, only for {LLVMS:?}",
        llvm.0
    );
    say(&format!(
        "building bpf-linker {VERSION} for LLVM {} (about a minute)",
        llvm.0
    ));
    let mut path = OsString::from(llvm.prefix().join("bin"));
    path.push(":");
    path.push(env::var_os("PATH").unwrap_or_default());
    run(cargo_without_compiler(None)
        .args([
            "install",
            "bpf-linker",
            "--version",
            VERSION,
            "--locked",
            "--force",
        ])
        .args([
            "--no-default-features",
            "--features",
            &format!("llvm-{}", llvm.0),
        ])
        .arg("--root")
        .arg(tools())
        .env("LLVM_PREFIX", llvm.prefix())
        .env("PATH", path))
    .context("build bpf-linker (is crates.io reachable?)")?;
    Ok(own())
}

fn own() -> PathBuf {
    tools().join("bin/bpf-linker")
}

fn fits(linker: &Path, llvm: LlvmMajor) -> Result<bool> {
    let version = output(
        Command::new(linker)
            .arg("--version")
            .env_remove("LD_LIBRARY_PATH"),
    );
    // One that does not even start (its LLVM is gone) does not fit.
    if version.is_ok_and(|version| is_version(&version)) {
        let program = fs::read(linker).with_context(|| format!("read {}", linker.display()))?;
        return Ok(names_llvm(&program, llvm));
    }
    Ok(false)
}

fn is_version(text: &str) -> bool {
    text.split_whitespace().nth(1) == Some(VERSION)
}

/// Whether the executable `program` has `llvm` inside or loads it: it then contains the library's
/// name, or the mark that LLVM puts into the bitcode it writes.
fn names_llvm(program: &[u8], llvm: LlvmMajor) -> bool {
    ["libLLVM.so.", "libLLVM-", "LLVM"].iter().any(|prefix| {
        let name = format!("{prefix}{}.", llvm.0);
        program
            .windows(name.len())
            .any(|window| window == name.as_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_llvms_of_this_version_are_supported() {
        assert!(!supports(LlvmMajor(20)) && !supports(LlvmMajor(24)));
        assert!((21..=23).all(|major| supports(LlvmMajor(major))));
    }

    #[test]
    fn the_version_is_compared_as_a_whole_word() {
        assert!(is_version("bpf-linker 0.13.0\n"));
        assert!(!is_version("bpf-linker 0.13.01\n"));
        assert!(!is_version(""));
    }

    #[test]
    fn a_linker_names_the_llvm_that_it_loads() {
        let program = b"\x7fELF..\0libLLVM.so.22.1\0..";
        assert!(names_llvm(program, LlvmMajor(22)));
        assert!(!names_llvm(program, LlvmMajor(2)));
        assert!(!names_llvm(program, LlvmMajor(21)));
    }

    #[test]
    fn a_linker_names_the_llvm_that_it_contains() {
        assert!(names_llvm(b"..\0LLVM23.1.0\0..", LlvmMajor(23)));
        assert!(!names_llvm(b"..\0LLVMGetTarget\0..", LlvmMajor(23)));
    }
}
