//! The command line of `pulsepath-agent`.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand, ValueEnum};

use super::settings::{DEFAULT_STATE_FILE, Settings};
use super::signals::Signals;
use super::{detach, inspect, run};
use crate::settings::{self, SettingsError};

/// Where everything is pinned unless configured otherwise.
pub const DEFAULT_PIN_DIR: &str = "/sys/fs/bpf/pulsepath";

/// Answers Pulsepath's probes on this node from the kernel, and shows that the node's agent works.
#[derive(Debug, Parser)]
#[command(name = "pulsepath-agent", version)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Put the reflector in place and beat until SIGTERM. What is in the kernel stays there.
    Run {
        #[command(flatten)]
        source: Source,
    },
    /// Show what the maps say, and the node's egress IPs; or only the tunnels that are counted.
    Inspect {
        /// What to show.
        #[arg(value_enum, default_value_t)]
        subject: Subject,
        #[command(flatten)]
        pins: Pins,
        /// How to show it.
        #[arg(short, long, value_enum, default_value_t)]
        output: Output,
    },
    /// Remove everything from the kernel: links, programs, maps, directories; egress IPs with their
    /// rules and flows.
    Detach {
        #[command(flatten)]
        pins: Pins,
        /// Also while an agent runs.
        #[arg(long)]
        force: bool,
        /// Also remove the node's key that a controller has brought.
        #[arg(long, value_name = "FILE")]
        key_file: Option<PathBuf>,
        /// Wait for SIGTERM or SIGINT afterwards, as whoever restarts what ends expects it.
        #[arg(long)]
        stay: bool,
    },
    /// Say whether settings are accepted, and change nothing.
    Check {
        #[command(flatten)]
        source: Source,
    },
}

/// Where settings come from, besides the environment.
#[derive(Debug, clap::Args)]
struct Source {
    /// Settings, in TOML.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Override a setting, for instance `beat.period=200ms`. May be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
}

impl Source {
    fn load(&self) -> Result<Settings, SettingsError> {
        settings::load(self.config.as_deref(), "PULSEPATH_AGENT", &self.overrides)
    }
}

#[derive(Debug, clap::Args)]
struct Pins {
    /// Where everything is pinned.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_PIN_DIR)]
    pin_dir: PathBuf,
    /// The agent's record of egress IPs.
    #[arg(long, value_name = "FILE", default_value = DEFAULT_STATE_FILE)]
    state_file: PathBuf,
}

/// What `inspect` shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Subject {
    /// Everything but tunnels.
    #[default]
    Node,
    /// What has been counted of each tunnel.
    Tunnels,
}

/// How a command shows its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// Runs the command; blocks until it is done.
pub fn main(arguments: Arguments) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    match arguments.command {
        Command::Run { source } => {
            let settings = source.load()?;
            runtime.block_on(run::run(settings))
        }
        Command::Check { source } => {
            let settings = source.load()?;
            println!("the settings of node {} are accepted", settings.node);
            Ok(())
        }
        Command::Inspect {
            subject: Subject::Node,
            pins,
            output,
        } => runtime.block_on(inspect::inspect(&pins.pin_dir, &pins.state_file, output)),
        Command::Inspect {
            subject: Subject::Tunnels,
            pins,
            output,
        } => inspect::tunnels(&pins.pin_dir, output),
        Command::Detach {
            pins,
            force,
            key_file,
            stay,
        } => runtime.block_on(async {
            detach::detach(&pins.pin_dir, &pins.state_file, force).await?;
            if let Some(path) = key_file {
                detach::forget_key(&path)?;
            }
            if stay {
                Signals::new()?.any().await;
            }
            Ok(())
        }),
    }
}
