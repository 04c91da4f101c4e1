//! Go, for programs that the tests build from Go modules.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail, ensure};

use super::packages::{Need, install};
use crate::paths::find_program;
use crate::shell::output;

/// Go 1.`oldest` or newer, which `what` needs.
///
/// # Errors
/// There is none, and Debian's is older.
pub(super) fn find(oldest: u32, what: &str) -> Result<PathBuf> {
    install(&Need::missing(&[Need::Program {
        name: "go",
        package: "golang-go",
    }])?)?;
    let Some(go) = find_program("go") else {
        bail!("golang-go brought no program `go`");
    };
    let text = output(Command::new(&go).args(["env", "GOVERSION"]))?;
    ensure!(
        minor(&text).is_some_and(|minor| minor >= oldest),
        "{} is {}: {what}, which the tests run, needs Go 1.{oldest} or newer. Install one and put it \
         first in PATH",
        go.display(),
        text.trim()
    );
    Ok(go)
}

/// 24 of `go1.24.3`.
fn minor(version: &str) -> Option<u32> {
    let rest = version.trim().strip_prefix("go1.")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minor_version_of_go_is_read() {
        assert_eq!(minor("go1.26.8\n"), Some(26));
        assert_eq!(minor("go1.24rc1"), Some(24));
        assert_eq!(minor("devel"), None);
    }
}
