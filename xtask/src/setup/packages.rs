//! Debian's packages.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
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
    require_apt(&missing)?;
    say(&format!(
        "installing Debian packages: {}",
        missing.join(" ")
    ));
    with_lists(|| apt_install(&missing))
}

/// Unpacks `packages` below `root`, without installing them.
///
/// # Errors
/// This is not Debian, or `apt-get` or `dpkg-deb` fails.
pub(crate) fn unpack(packages: &[&str], root: &Path) -> Result<()> {
    if packages.is_empty() {
        return Ok(());
    }
    require_apt(packages)?;
    say(&format!(
        "unpacking Debian packages: {}",
        packages.join(" ")
    ));
    let archives = root.join("archives");
    fs::create_dir_all(&archives).with_context(|| format!("make {}", archives.display()))?;
    with_lists(|| {
        run(Command::new("apt-get")
            .current_dir(&archives)
            .args(["download", "--quiet"])
            .args(packages))
    })?;
    let entries =
        fs::read_dir(&archives).with_context(|| format!("read {}", archives.display()))?;
    for entry in entries.flatten() {
        run(Command::new("dpkg-deb")
            .arg("--extract")
            .arg(entry.path())
            .arg(root))?;
    }
    fs::remove_dir_all(&archives).with_context(|| format!("remove {}", archives.display()))
}

fn require_apt(packages: &[&str]) -> Result<()> {
    ensure!(
        find_program("apt-get").is_some(),
        "missing: {} (names of Debian packages). This is no Debian: install them, or what \
         they stand for here, by hand",
        packages.join(" ")
    );
    Ok(())
}

/// Lets `apt-get` do something, with lists that are there, and new if it fails.
fn with_lists(act: impl Fn() -> Result<()>) -> Result<()> {
    let updated = !have_lists();
    if updated {
        update()?;
    }
    let outcome = act();
    if outcome.is_err() && !updated {
        // Old lists name versions that the mirrors no longer have.
        update()?;
        return act().context(UNREACHABLE);
    }
    outcome.context(UNREACHABLE)
}

const UNREACHABLE: &str =
    "cannot get packages: are Debian's mirrors reachable, and do they have them?";

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
