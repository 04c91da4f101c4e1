//! What a machine needs, installed where it is missing.
//!
//! `compiler` chooses who compiles the kernel programs, `linker` sees to the bpf-linker that fits
//! it, `packages` asks and feeds Debian's package manager, `tools` has the foreign programs of tests and
//! benches, `kubernetes` those of a cluster, `chart` those that check and install the chart.

mod chart;
mod compiler;
mod go;
mod kubernetes;
mod linker;
mod packages;
mod tools;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::shell::{as_root, run, say};
use compiler::LlvmMajor;
pub(crate) use compiler::{Compiler, Core};
use packages::{Need, install};

const BPFFS: &str = "/sys/fs/bpf";

/// What the distribution offers to compile for BPF without rustup's help.
const DISTRIBUTION_COMPILER: [&str; 2] = ["rustc-web", "libstd-rust-web-dev-bpf"];

/// What a machine is set up for. Each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    /// Compiling.
    Build,
    /// Running agents and controllers in namespaces: the demo.
    Run,
    /// The tests and benches, with the foreign programs that they use.
    Test,
}

/// How the kernel programs are built here.
#[derive(Debug)]
pub(crate) struct Toolchain {
    /// Who compiles.
    pub(crate) compiler: Compiler,
    /// The bpf-linker that reads what `compiler` writes.
    pub(crate) linker: PathBuf,
    /// The `llvm-strip` of the same LLVM.
    pub(crate) strip: PathBuf,
}

/// Installs what is missing for `purpose`, and says what is there.
///
/// # Errors
/// Something cannot be installed: no root, no Debian, no network.
pub(crate) fn setup(purpose: Purpose) -> Result<Toolchain> {
    let toolchain = toolchain()?;
    say(&format!(
        "kernel programs: {}, {}",
        toolchain.compiler.describe(),
        toolchain.linker.display()
    ));
    if purpose >= Purpose::Run {
        install(&Need::missing(&[
            Need::Program {
                name: "ip",
                package: "iproute2",
            },
            Need::Program {
                name: "tc",
                package: "iproute2",
            },
            Need::Program {
                name: "bpftool",
                package: "bpftool",
            },
            // The last two are for visitors of the demo.
            Need::Program {
                name: "nft",
                package: "nftables",
            },
            Need::Program {
                name: "curl",
                package: "curl",
            },
        ])?)?;
        mount_bpffs()?;
    }
    if purpose >= Purpose::Test {
        tools::ensure()?;
        chart::ensure()?;
        kubernetes::ensure()?;
    }
    Ok(toolchain)
}

/// A compiler with its linker: one that is complete, else one that can be completed, else the
/// distribution's.
fn toolchain() -> Result<Toolchain> {
    let candidates = compiler::installed();
    for compiler in &candidates {
        if let Some(linker) = linker::find(compiler.llvm())?
            && let Some(strip) = compiler.llvm().strip()
        {
            return Ok(Toolchain {
                compiler: compiler.clone(),
                linker,
                strip,
            });
        }
    }
    let completable = candidates.into_iter().find(|compiler| {
        let llvm = compiler.llvm();
        let possible = linker::supports(llvm) && packages::is_offered(&llvm.package());
        if !possible {
            say(&format!(
                "{} is of no use: no bpf-linker can be built for it here",
                compiler.describe()
            ));
        }
        possible
    });
    let compiler = match completable {
        Some(compiler) => compiler,
        None => install_compiler()?,
    };
    complete(compiler)
}

fn install_compiler() -> Result<Compiler> {
    install(&DISTRIBUTION_COMPILER)?;
    compiler::distribution().with_context(|| {
        format!(
            "{} with Rust {} or newer is needed to compile for BPF, or a rustup nightly with \
             rust-src",
            DISTRIBUTION_COMPILER.join(", "),
            compiler::OLDEST
        )
    })
}

fn complete(compiler: Compiler) -> Result<Toolchain> {
    let llvm = compiler.llvm();
    install(&[llvm.package().as_str(), "libzstd-dev", "zlib1g-dev", "g++"])?;
    let linker = match linker::find(llvm)? {
        Some(linker) => linker,
        None => linker::build(llvm)?,
    };
    let strip = llvm
        .strip()
        .context("llvm-strip did not come with its package")?;
    Ok(Toolchain {
        compiler,
        linker,
        strip,
    })
}

fn mount_bpffs() -> Result<()> {
    let mounts = fs::read_to_string("/proc/mounts").context("read /proc/mounts")?;
    if is_mounted(&mounts, BPFFS) {
        return Ok(());
    }
    say(&format!("mounting bpffs at {BPFFS}"));
    run(as_root("mount")?.args(["-t", "bpf", "bpf", BPFFS]))
}

/// Whether a bpffs is mounted at `path`, according to `/proc/mounts`.
fn is_mounted(mounts: &str, path: &str) -> bool {
    mounts.lines().any(|line| {
        let mut words = line.split(' ').skip(1);
        words.next() == Some(path) && words.next() == Some("bpf")
    })
}

impl LlvmMajor {
    /// Its `llvm-strip`, if it is installed.
    fn strip(self) -> Option<PathBuf> {
        let path = self.prefix().join("bin/llvm-strip");
        path.is_file().then_some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bpffs_counts_as_one() {
        let mounts = "sysfs /sys sysfs rw 0 0\nnone /sys/fs/bpf tmpfs rw 0 0\n";
        assert!(!is_mounted(mounts, BPFFS));
        assert!(is_mounted("bpf /sys/fs/bpf bpf rw,relatime 0 0\n", BPFFS));
        assert!(!is_mounted("bpf /mnt bpf rw,relatime 0 0\n", BPFFS));
    }
}
