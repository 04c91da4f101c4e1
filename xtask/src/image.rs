//! `cargo xtask image`: the images of agent and controller, from static binaries and nothing else.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::build::build_kernel_programs;
use crate::elf::loads_libraries;
use crate::oci::Image;
use crate::paths;
use crate::setup::{Purpose, setup};
use crate::shell::{as_root, cargo, output, run, say};

/// For which processors images are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Architecture {
    /// x86-64.
    Amd64,
    /// AArch64. Needs rustup's target of that name, and Debian's gcc-aarch64-linux-gnu.
    Arm64,
}

impl Architecture {
    /// As images name it.
    const fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    const fn triple(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-gnu",
            Self::Arm64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// Whether this machine runs what is built for it.
    fn is_native(self) -> bool {
        self.triple().starts_with(std::env::consts::ARCH)
    }
}

/// What an image holds, each program in the root directory; the first one runs.
struct Content {
    name: &'static str,
    title: &'static str,
    programs: &'static [&'static str],
    /// As whom it runs; `None`: as root, whom the kernel lets load programs.
    user: Option<&'static str>,
}

const CONTENTS: [Content; 2] = [
    Content {
        name: "pulsepath-agent",
        title: "Pulsepath's agent, for every node",
        programs: &["pulsepath-agent"],
        user: None,
    },
    Content {
        name: "pulsepath-controller",
        title: "Pulsepath's controller and command line",
        programs: &["pulsepath-controller", "pulsepath"],
        user: Some("65532:65532"),
    },
];

/// Which images to make.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// For which processors.
    #[arg(long, value_enum, default_value = "amd64")]
    arch: Architecture,
    /// The images' tag.
    #[arg(long, default_value = env!("CARGO_PKG_VERSION"))]
    tag: String,
    /// What stands before the images' names, such as `registry.example.com/team`.
    #[arg(long, default_value = "")]
    registry: String,
}

/// Builds the binaries, and writes an archive for each image.
pub(crate) fn image(options: &Options) -> Result<()> {
    let toolchain = setup(Purpose::Build)?;
    build_kernel_programs(&toolchain)?;
    let binaries = build_static(options.arch)?;
    for content in &CONTENTS {
        let archive = content.write(options, &binaries)?;
        let size = fs::metadata(&archive)
            .with_context(|| format!("look at {}", archive.display()))?
            .len();
        say(&format!(
            "{} ({:.1} MB)",
            archive.display(),
            size as f64 / 1e6
        ));
    }
    Ok(())
}

fn build_static(architecture: Architecture) -> Result<PathBuf> {
    let triple = architecture.triple();
    say(&format!("building static binaries for {triple}"));
    let mut build = cargo();
    build
        .current_dir(paths::root())
        .args(["build", "--release", "--bins"])
        .args(["--package", "probe-user", "--package", "controller"])
        .args(["--target", triple, "--target-dir"])
        .arg(paths::target())
        .env("CARGO_ENCODED_RUSTFLAGS", "-Ctarget-feature=+crt-static")
        .env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo");
    if !architecture.is_native() {
        let linker = format!(
            "{}-linux-gnu-gcc",
            triple.split('-').next().unwrap_or(triple)
        );
        build.env(linker_variable(triple), linker);
    }
    run(&mut build).with_context(|| {
        format!("build for {triple} (`rustup target add {triple}` brings what it needs)")
    })?;
    Ok(paths::target().join(triple).join("release"))
}

/// The variable that tells cargo who links for `triple`.
fn linker_variable(triple: &str) -> String {
    format!(
        "CARGO_TARGET_{}_LINKER",
        triple.to_uppercase().replace('-', "_")
    )
}

impl Content {
    /// Puts the programs into a directory, and that into an archive. The directory stays, for the
    /// Dockerfiles.
    fn write(&self, options: &Options, binaries: &Path) -> Result<PathBuf> {
        let directory = paths::target().join("images").join(options.arch.name());
        let root = directory.join(self.name);
        fs::create_dir_all(&root).with_context(|| format!("make {}", root.display()))?;
        for program in self.programs {
            let (from, to) = (binaries.join(program), root.join(program));
            fs::copy(&from, &to)
                .with_context(|| format!("copy {} to {}", from.display(), to.display()))?;
            let content = fs::read(&to).with_context(|| format!("read {}", to.display()))?;
            ensure!(
                !loads_libraries(&content)?,
                "{} is not static",
                to.display()
            );
            if options.arch.is_native() {
                let mut start = as_root("chroot")?;
                start.arg(&root).arg(format!("/{program}")).arg("--version");
                output(&mut start).context("start it where there is nothing else")?;
            }
        }
        let archive = directory.join(format!("{}.tar", self.name));
        self.image(options).write(&root, &archive)?;
        Ok(archive)
    }

    fn image(&self, options: &Options) -> Image {
        let registry = options.registry.trim_end_matches('/');
        let slash = if registry.is_empty() { "" } else { "/" };
        Image {
            names: vec![format!("{registry}{slash}{}:{}", self.name, options.tag)],
            architecture: options.arch.name().to_owned(),
            user: self.user.map(str::to_owned),
            entrypoint: vec![format!("/{}", self.programs[0])],
            labels: self.labels(),
        }
    }

    fn labels(&self) -> BTreeMap<String, String> {
        let mut labels = vec![
            ("title", self.title.to_owned()),
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("licenses", env!("CARGO_PKG_LICENSE").to_owned()),
        ];
        // Sources without their history have none.
        let mut revision = Command::new("git");
        revision
            .current_dir(paths::root())
            .args(["rev-parse", "HEAD"]);
        if let Ok(revision) = output(&mut revision) {
            labels.push(("revision", revision.trim().to_owned()));
        }
        let label = |(name, value)| (format!("org.opencontainers.image.{name}"), value);
        labels.into_iter().map(label).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_linkers_variable_is_spelled_as_cargo_wants_it() {
        let variable = linker_variable(Architecture::Arm64.triple());
        assert_eq!(variable, "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER");
    }

    #[test]
    fn images_are_named_with_and_without_a_registry() {
        let names = |registry: &str| {
            let options = Options {
                arch: Architecture::Amd64,
                tag: "1".to_owned(),
                registry: registry.to_owned(),
            };
            CONTENTS[0].image(&options).names
        };
        assert_eq!(names(""), ["pulsepath-agent:1"]);
        assert_eq!(
            names("example.com/team/"),
            ["example.com/team/pulsepath-agent:1"]
        );
    }
}
