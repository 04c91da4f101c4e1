//! `cargo xtask`: everything that is done with this project, from a fresh clone on.
//!
//! Every verb calls [`setup`] first, for as much as it needs itself. What can be decided without
//! touching the machine (which compiler, which linker, which packages) is in pure functions. Tests
//! write images by [`oci`], too.

#![forbid(unsafe_code)]

mod build;
mod crds;
mod elf;
mod image;
pub mod oci;
mod paths;
mod run;
mod setup;
mod shell;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::build::Profile;
use crate::setup::Purpose;

/// Sets this machine up, builds, tests and shows Pulsepath.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Installs what is missing to build and run (as root or through sudo); a second time, does
    /// nothing.
    Setup {
        /// Also what only tests and benches need: tshark, scapy, stamp-suite, keepalived.
        #[arg(long)]
        tests: bool,
    },
    /// Builds the kernel programs and all binaries.
    Build {
        /// Optimized.
        #[arg(long)]
        release: bool,
    },
    /// Formatting, lints, and whether the chart has the custom resources of the code, as CI checks
    /// them.
    Check,
    /// Writes the definitions of the custom resources into the chart.
    Crds,
    /// Runs all tests (those of tiers 2 and 3 as root).
    Test {
        /// Passed on to `cargo test`: a filter, `-p PACKAGE`, `-- --nocapture`, ...
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Nodes, a controller and a client on this machine: what they notice, and how fast.
    Demo {
        /// Leaves it running afterwards, for a look around.
        #[arg(long)]
        keep: bool,
        /// Only removes what an earlier demo left behind.
        #[arg(long, conflicts_with = "keep")]
        clean: bool,
    },
    /// Builds the images of agent and controller as OCI archives, below `target/images`: static binaries
    /// and nothing else, without a daemon or a base image.
    Image(image::Options),
    /// A Kubernetes cluster with Pulsepath on this machine: what a client notices of what happens to it.
    E2e {
        /// Leaves it running afterwards, and says how to use kubectl with it.
        #[arg(long)]
        keep: bool,
    },
    /// Measures: `reflector`, `prober`, `outage`, `tunnels`, `fencing` or `loss`.
    Bench {
        /// Which bench, and its options.
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

/// Does what the command line asks for.
///
/// # Errors
/// Says what failed.
pub fn main() -> Result<()> {
    match Arguments::parse().verb {
        Verb::Setup { tests: false } => setup::setup(Purpose::Run).map(drop),
        Verb::Setup { tests: true } => setup::setup(Purpose::Test).map(drop),
        Verb::Build { release } => build::build(Profile::new(release), Purpose::Build).map(drop),
        Verb::Check => run::check(),
        Verb::Crds => crds::write(),
        Verb::Test { arguments } => run::test(&arguments),
        Verb::Demo { keep, clean } => run::demo(keep, clean),
        Verb::Image(options) => image::image(&options),
        Verb::E2e { keep } => run::e2e(keep),
        Verb::Bench { arguments } => run::bench(&arguments),
    }
}
