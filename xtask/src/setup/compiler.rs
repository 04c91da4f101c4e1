//! Who compiles the kernel programs.
//!
//! A rustup nightly with rust-src compiles BPF's `core` itself. The distribution's compiler has
//! it prebuilt, and needs `RUSTC_BOOTSTRAP` for the unstable features of aya-ebpf.

use std::env;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::shell::output;

/// The workspace's `rust-version`.
pub(crate) const OLDEST: Release = Release {
    major: 1,
    minor: 95,
};

const DISTRIBUTION_RUSTC: &str = "/usr/bin/rustc";
const TARGET: &str = "bpfel-unknown-none";

/// A compiler's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Release {
    major: u32,
    minor: u32,
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The major version of an LLVM: its bitcode is read by the same or a newer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LlvmMajor(pub(crate) u32);

impl LlvmMajor {
    /// Debian's package to link against it.
    pub(crate) fn package(self) -> String {
        format!("llvm-{}-dev", self.0)
    }

    /// Where Debian installs it.
    pub(crate) fn prefix(self) -> PathBuf {
        PathBuf::from(format!("/usr/lib/llvm-{}", self.0))
    }
}

/// What `rustc -vV` says, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    release: Release,
    llvm: LlvmMajor,
}

impl Version {
    fn parse(text: &str) -> Result<Self> {
        let release = field(text, "release: ")?;
        let mut numbers = release.split('.').map(|number| number.parse::<u32>());
        let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
            anyhow::bail!("no version: release {release:?}");
        };
        let llvm = field(text, "LLVM version: ")?;
        let llvm = llvm
            .split('.')
            .next()
            .and_then(|major| major.parse().ok())
            .with_context(|| format!("no version: LLVM {llvm:?}"))?;
        Ok(Self {
            release: Release { major, minor },
            llvm: LlvmMajor(llvm),
        })
    }
}

fn field<'a>(text: &'a str, name: &str) -> Result<&'a str> {
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .with_context(|| format!("`rustc -vV` has no line {name:?}"))
}

/// How `core` for BPF comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Core {
    /// Compiled from rust-src (`-Z build-std=core`).
    FromSource,
    /// Prebuilt, beside the compiler.
    Prebuilt,
}

/// A compiler that can build the kernel programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Compiler {
    rustc: PathBuf,
    core: Core,
    version: Version,
}

impl Compiler {
    /// The executable.
    pub(crate) fn rustc(&self) -> &Path {
        &self.rustc
    }

    /// The cargo that goes with it: its own if it compiles `core`, whose source only that one is
    /// sure to understand. The distribution's compiler works with any.
    pub(crate) fn cargo(&self) -> Option<PathBuf> {
        match self.core {
            Core::FromSource => Some(self.rustc.with_file_name("cargo")),
            Core::Prebuilt => None,
        }
    }

    /// Where its `core` for BPF comes from.
    pub(crate) fn core(&self) -> Core {
        self.core
    }

    /// The LLVM that it writes bitcode for.
    pub(crate) fn llvm(&self) -> LlvmMajor {
        self.version.llvm
    }

    /// The compiler in words.
    pub(crate) fn describe(&self) -> String {
        format!(
            "{} (Rust {}, LLVM {})",
            self.rustc.display(),
            self.version.release,
            self.version.llvm.0
        )
    }

    /// Asks `rustc` who it is.
    fn ask(rustc: PathBuf, core: Core) -> Result<Self> {
        let text = output(
            Command::new(&rustc)
                .arg("-vV")
                .env_remove("LD_LIBRARY_PATH"),
        )?;
        let version = Version::parse(&text)?;
        ensure!(
            version.release >= OLDEST,
            "{} is older than {OLDEST}",
            rustc.display()
        );
        Ok(Self {
            rustc,
            core,
            version,
        })
    }
}

/// The compilers that are there and new enough, the preferred ones first.
pub(crate) fn installed() -> Vec<Compiler> {
    let nightlies = rustup_home()
        .map(|home| nightlies(&home))
        .unwrap_or_default();
    let nightlies = nightlies
        .into_iter()
        .map(|rustc| Compiler::ask(rustc, Core::FromSource));
    // One that does not run or is too old is no candidate; if none is left, setup says so.
    nightlies.flatten().chain(distribution()).collect()
}

/// The distribution's compiler, if it is there, new enough, and has `core` for BPF.
pub(crate) fn distribution() -> Option<Compiler> {
    let core = Path::new("/usr/lib/rustlib").join(TARGET).join("lib");
    core.is_dir()
        .then(|| Compiler::ask(DISTRIBUTION_RUSTC.into(), Core::Prebuilt).ok())?
}

fn rustup_home() -> Option<PathBuf> {
    env::var_os("RUSTUP_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(env::home_dir()?.join(".rustup")))
}

/// The compilers of rustup's nightlies that have rust-src, the undated one first.
fn nightlies(rustup_home: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(rustup_home.join("toolchains")) else {
        return Vec::new();
    };
    let mut toolchains: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.as_encoded_bytes().starts_with(b"nightly"))
        })
        .filter(|path| path.join("lib/rustlib/src/rust/library/core").is_dir())
        .collect();
    // "nightly-2026-..." sorts before "nightly-x86_64-...": digits come first.
    toolchains.sort();
    toolchains.reverse();
    toolchains
        .into_iter()
        .map(|path| path.join("bin/rustc"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEBIAN: &str = "rustc 1.96.0 (ac68faa20 2026-05-25) (built from a source tarball)\n\
        binary: rustc\ncommit-hash: ac68faa20c58cbccd01ee7208bf3b6e93a7d7f96\n\
        commit-date: 2026-05-25\nhost: x86_64-unknown-linux-gnu\nrelease: 1.96.0\n\
        LLVM version: 22.1.8\n";

    #[test]
    fn a_release_and_its_llvm_are_read() {
        let version = Version::parse(DEBIAN).unwrap();
        assert_eq!(
            version.release,
            Release {
                major: 1,
                minor: 96
            }
        );
        assert_eq!(version.llvm, LlvmMajor(22));
    }

    #[test]
    fn a_nightly_is_read_like_a_release() {
        let text = DEBIAN.replace("release: 1.96.0", "release: 1.97.0-nightly");
        assert_eq!(
            Version::parse(&text).unwrap().release,
            Release {
                major: 1,
                minor: 97
            }
        );
    }

    #[test]
    fn a_missing_line_is_named() {
        let error = Version::parse("release: 1.96.0\n").unwrap_err();
        assert!(error.to_string().contains("LLVM version"), "{error}");
    }

    #[test]
    fn releases_compare_by_number_not_by_text() {
        assert!(
            Release {
                major: 1,
                minor: 100
            } > OLDEST
        );
        assert!(
            Release {
                major: 1,
                minor: 85
            } < OLDEST
        );
    }

    #[test]
    fn only_nightlies_with_rust_src_are_found_and_the_undated_one_comes_first() {
        let home = tempfile::tempdir().unwrap();
        let toolchains = home.path().join("toolchains");
        for name in [
            "nightly-2026-05-20-x86_64",
            "nightly-x86_64",
            "stable-x86_64",
        ] {
            fs::create_dir_all(
                toolchains
                    .join(name)
                    .join("lib/rustlib/src/rust/library/core"),
            )
            .unwrap();
        }
        fs::create_dir_all(toolchains.join("nightly-2026-01-01-x86_64/bin")).unwrap();
        let expected = ["nightly-x86_64", "nightly-2026-05-20-x86_64"]
            .map(|name| toolchains.join(name).join("bin/rustc"));
        assert_eq!(nightlies(home.path()), expected);
    }
}
