//! Debian's packages.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::paths::find_program;
use crate::shell::{as_root, output, run, say};

/// Something that a package brings.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Need {
    /// A program, from wherever it may come.
    Program {
        name: &'static str,
        package: &'static str,
    },
    /// The package itself.
    Package(&'static str),
}

impl Need {
    /// The packages of those `needs` that are not met.
    pub(crate) fn missing(needs: &[Self]) -> Result<Vec<&'static str>> {
        let mut missing = BTreeSet::new();
        for need in needs {
            match need {
                Self::Program { name, package } if find_program(name).is_none() => {
                    missing.insert(*package);
                }
                Self::Program { .. } => {}
                Self::Package(package) => {
                    if !is_installed(package) {
                        missing.insert(*package);
                    }
                }
            }
        }
        Ok(missing.into_iter().collect())
    }
}

/// Installs those of `packages` that are not installed.
///
/// # Errors
/// This is not Debian, there is no root, or `apt-get` fails, even after an update of its lists.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    let missing: Vec<_> = packages
        .iter()
        .copied()
        .filter(|name| !is_installed(name))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    ensure!(
        find_program("apt-get").is_some(),
        "missing: {list} (names of Debian packages). This is no Debian: install them, or what \
         they stand for here, by hand"
    );
    say(&format!("installing Debian packages: {list}"));
    let updated = !have_lists();
    if updated {
        update()?;
    }
    let outcome = apt_install(&missing);
    if outcome.is_err() && !updated {
        // Old lists name versions that the mirrors no longer have.
        update()?;
        return apt_install(&missing).context(UNREACHABLE);
    }
    outcome.context(UNREACHABLE)
}

const UNREACHABLE: &str =
    "cannot install packages: are Debian's mirrors reachable, and do they have them?";

/// Whether the package manager could install `package`.
pub(crate) fn is_offered(package: &str) -> bool {
    if is_installed(package) {
        return true;
    }
    // Without lists nothing is offered yet; a failed update shows when something is installed.
    if !have_lists() && update().is_err() {
        return false;
    }
    output(Command::new("apt-cache").args(["show", "--no-all-versions", package])).is_ok()
}

fn is_installed(package: &str) -> bool {
    let mut query = Command::new("dpkg-query");
    query.args(["--show", "--showformat=${db:Status-Status}", package]);
    output(&mut query).is_ok_and(|status| status == "installed")
}

fn have_lists() -> bool {
    let Ok(entries) = fs::read_dir("/var/lib/apt/lists") else {
        return false;
    };
    entries
        .flatten()
        .any(|entry| entry.file_name().to_string_lossy().contains("_Packages"))
}

fn update() -> Result<()> {
    say("updating the lists of Debian packages");
    run(as_root("apt-get")?.args(["update", "--quiet"])).context(UNREACHABLE)
}

fn apt_install(packages: &[&str]) -> Result<()> {
    run(as_root("env")?
        .args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "install"])
        .args(["--yes", "--quiet", "--no-install-recommends"])
        .args(packages))
}
