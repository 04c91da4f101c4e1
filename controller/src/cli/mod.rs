//! The command line client `pulsepath`: asks nodes directly, and the controller over HTTP.
//!
//! What it prints on standard output is for people, or with `-o json` for programs, one object a
//! line; notes and errors go to standard error. Exit status: 0 well, 1 no answer, 2 wrong usage.

mod drain;
mod explain;
mod gateways;
mod output;
mod ping;
mod status;
mod time;
mod tunnels;
mod watch;

use std::io;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use probe_user::session::SocketError;

/// Shows whether nodes' dataplanes and agents work.
#[derive(Parser)]
#[command(name = "pulsepath", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Probe a node, as a controller does, and show each answer.
    Ping(ping::PingOptions),
    /// Show the state of every node, and who owns which egress IP, as the controller sees it.
    Status(status::StatusOptions),
    /// Show nodes' changes of state as they happen.
    Watch(watch::WatchOptions),
    /// Move all egress IPs away from a node, and place none there.
    Drain(drain::DrainOptions),
    /// End a drain. What has been moved away stays where it is.
    Undrain(drain::DrainOptions),
    /// Say why a node or an egress IP is as it is.
    Explain(explain::ExplainOptions),
    /// Show what flows between nodes through their tunnels, as they have counted it.
    Tunnels(tunnels::TunnelsOptions),
}

/// Exit status if there was no answer.
const NO_ANSWER: u8 = 1;
/// Exit status if what was asked for makes no sense.
const USAGE: u8 = 2;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The user has to change something.
    #[error("{0:#}")]
    Usage(anyhow::Error),
    /// There is no answer, or it makes no sense.
    #[error("{0:#}")]
    NoAnswer(anyhow::Error),
    /// Standard output is gone: whoever read it has seen enough, or cannot be told anyway.
    #[error("cannot write to standard output: {0}")]
    Output(#[from] io::Error),
}

impl From<SocketError> for Failure {
    fn from(error: SocketError) -> Self {
        Self::NoAnswer(error.into())
    }
}

/// Runs the program.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("pulsepath: cannot start: {error}");
            return ExitCode::from(NO_ANSWER);
        }
    };
    let result = runtime.block_on(async {
        match cli.command {
            Command::Ping(options) => ping::run(options).await,
            Command::Status(options) => status::run(options).await,
            Command::Watch(options) => watch::run(options).await,
            Command::Drain(options) => drain::run(options, true).await,
            Command::Undrain(options) => drain::run(options, false).await,
            Command::Explain(options) => explain::run(options).await,
            Command::Tunnels(options) => tunnels::run(options).await,
        }
    });
    match result {
        Ok(code) => code,
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("pulsepath: {failure}");
            ExitCode::from(if matches!(failure, Failure::Usage(_)) {
                USAGE
            } else {
                NO_ANSWER
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_well_defined() {
        super::Cli::command().debug_assert();
    }
}
