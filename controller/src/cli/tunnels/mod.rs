//! `pulsepath tunnels`.

mod svg;
mod table;

use std::process::ExitCode;

use super::Failure;
use super::output;
use crate::client::{self, Controller};

/// Options of `pulsepath tunnels`.
#[derive(clap::Args)]
pub(super) struct TunnelsOptions {
    #[command(flatten)]
    controller: client::ControllerOptions,
    /// For people, for programs, or as a picture.
    #[arg(short, long, value_enum, default_value_t)]
    output: TunnelFormat,
}

/// For whom to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum TunnelFormat {
    /// For people: what each node sees of each other one.
    #[default]
    Text,
    /// For programs: one JSON object.
    Json,
    /// A heat map.
    Svg,
}

pub(super) async fn run(options: TunnelsOptions) -> Result<ExitCode, Failure> {
    let controller = Controller::new(options.controller).map_err(Failure::Usage)?;
    let matrix = controller.tunnels().await.map_err(Failure::NoAnswer)?;
    match options.output {
        TunnelFormat::Json => output::print_json(&matrix)?,
        TunnelFormat::Svg => output::print(svg::draw(&matrix).trim_end())?,
        TunnelFormat::Text => {
            for line in table::lines(&matrix, output::use_colour()) {
                output::print(&line)?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
