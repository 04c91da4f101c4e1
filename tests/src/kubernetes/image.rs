//! Images of what the build has made, for containerd.
//!
//! They hold the programs as they are for the other tests, with the libraries that they load, so that
//! nothing has to be built twice. `cargo xtask image` makes those for use.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use tempfile::TempDir;
use xtask::oci;

use super::programs;
use crate::command::{program, run};

/// The registry that the images' names say they are from.
pub const REGISTRY: &str = "pulsepath.dev";

/// One layer, and under which names it is known.
struct Image {
    /// With registry and tag.
    names: Vec<String>,
    /// The programs in it, each in the root directory.
    programs: Vec<PathBuf>,
    /// What runs if nothing else is asked for.
    entrypoint: Vec<&'static str>,
}

/// Writes to `directory` all images that nodes need, those of Pulsepath with each of `tags`.
///
/// # Errors
/// A program is not built, or a file cannot be written.
pub fn write_images(directory: &Path, tags: &[&str]) -> Result<()> {
    fs::create_dir(directory).with_context(|| format!("make {}", directory.display()))?;
    pause()?.write(&directory.join("pause.tar"))?;
    pulsepath(tags)?.write(&directory.join("pulsepath.tar"))
}

/// What a Pod's sandbox is made of.
fn pause() -> Result<Image> {
    Ok(Image {
        names: vec![format!("{REGISTRY}/pause:test")],
        programs: vec![programs::kubernetes("pause")?],
        entrypoint: vec!["/pause"],
    })
}

/// One image under all names, so that a node unpacks it once.
fn pulsepath(tags: &[&str]) -> Result<Image> {
    let tagged = |name| {
        tags.iter()
            .map(move |tag| format!("{REGISTRY}/{name}:{tag}"))
    };
    let names = ["pulsepath-agent", "pulsepath-controller"];
    let programs = ["pulsepath-agent", "pulsepath-controller", "pulsepath"];
    Ok(Image {
        names: names.into_iter().flat_map(tagged).collect(),
        programs: programs.into_iter().map(program).collect::<Result<_>>()?,
        entrypoint: Vec::new(),
    })
}

impl Image {
    /// Writes it to `path`, an OCI archive.
    fn write(&self, path: &Path) -> Result<()> {
        let beside = path.parent().context("an image is in a directory")?;
        let root = TempDir::new_in(beside)?;
        self.fill(root.path())?;
        let image = oci::Image {
            names: self.names.clone(),
            architecture: "amd64".to_owned(),
            entrypoint: self.entrypoint.iter().map(ToString::to_string).collect(),
            ..oci::Image::default()
        };
        image.write(root.path(), path)
    }

    /// Puts everything that the image consists of below `root`: the programs, without what only a
    /// debugger reads, and the libraries that they load.
    fn fill(&self, root: &Path) -> Result<()> {
        let mut libraries = BTreeSet::new();
        for program in &self.programs {
            let name = program.file_name().context("a program has a name")?;
            run(Command::new("strip")
                .arg("-o")
                .arg(root.join(name))
                .arg(program))?;
            libraries.extend(loads(program)?);
        }
        for library in libraries {
            let copy = root.join(library.trim_start_matches('/'));
            fs::create_dir_all(copy.parent().context("a library is in a directory")?)?;
            fs::copy(&library, &copy).with_context(|| format!("copy {library}"))?;
        }
        Ok(())
    }
}

/// The libraries that `program` loads, its loader included.
fn loads(program: &Path) -> Result<Vec<String>> {
    // Of a program that loads none it says so, and fails.
    let listed = run(Command::new("ldd").arg(program)).unwrap_or_default();
    Ok(listed
        .lines()
        .filter_map(library)
        .map(str::to_owned)
        .collect())
}

/// The path in a line of `ldd`: `libc.so.6 => /lib/libc.so.6 (0x1)`, or `/lib64/ld.so (0x1)`.
fn library(line: &str) -> Option<&str> {
    let path = line.split_whitespace().rev().nth(1)?;
    path.starts_with('/').then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_found_by_their_paths() {
        assert_eq!(
            library("\tlibc.so.6 => /lib/libc.so.6 (0x01)"),
            Some("/lib/libc.so.6")
        );
        assert_eq!(library("\t/lib64/ld.so.2 (0x01)"), Some("/lib64/ld.so.2"));
        assert_eq!(library("\tlinux-vdso.so.1 (0x01)"), None);
        assert_eq!(library("\tstatically linked"), None);
    }
}
