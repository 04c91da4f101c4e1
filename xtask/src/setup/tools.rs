//! Foreign programs that only tests and benches use: other implementations to talk to, to read our
//! bytes, and to measure with.

use std::fs;

use anyhow::{Context, Result};

use super::packages::{Need, install};
use crate::paths::tools;
use crate::shell::{cargo_without_compiler, run, say};

/// A STAMP sender and reflector, from crates.io.
const STAMP_SUITE: (&str, &str) = ("stamp-suite", "1.0.0");

/// Installs those that are missing.
pub(crate) fn ensure() -> Result<()> {
    install(&Need::missing(&[
        Need::Program {
            name: "arping",
            package: "arping",
        },
        Need::Program {
            name: "conntrack",
            package: "conntrack",
        },
        Need::Program {
            name: "ethtool",
            package: "ethtool",
        },
        Need::Program {
            name: "keepalived",
            package: "keepalived",
        },
        Need::Program {
            name: "nft",
            package: "nftables",
        },
        Need::Program {
            name: "tshark",
            package: "tshark",
        },
        Need::Package("python3-scapy"),
        Need::Program {
            name: "h2load",
            package: "nghttp2-client",
        },
    ])?)?;
    let (name, version) = STAMP_SUITE;
    let installed = fs::read_to_string(tools().join(".crates.toml")).unwrap_or_default();
    if lists(&installed, name, version) && tools().join("bin").join(name).is_file() {
        return Ok(());
    }
    say(&format!("building {name} {version} (about a minute)"));
    run(cargo_without_compiler(None)
        .args([
            "install",
            name,
            "--version",
            version,
            "--locked",
            "--debug",
            "--root",
        ])
        .arg(tools()))
    .with_context(|| format!("build {name} (is crates.io reachable?)"))
}

/// Whether cargo's list of installed crates has this version of `name`.
fn lists(installed: &str, name: &str, version: &str) -> bool {
    installed.contains(&format!("\"{name} {version} ("))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_not_the_one_wanted() {
        let list = "[v1]\n\"stamp-suite 1.0.0 (registry+https://example.org)\" = [\"x\"]\n";
        assert!(lists(list, "stamp-suite", "1.0.0"));
        assert!(!lists(list, "stamp-suite", "1.0"));
        assert!(!lists(list, "suite", "1.0.0"));
    }
}
