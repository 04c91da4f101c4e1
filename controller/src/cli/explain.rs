//! `pulsepath explain`.

use std::process::ExitCode;

use super::Failure;
use super::output::{self, Format};
use crate::client::{self, Controller};

/// Options of `pulsepath explain`.
#[derive(clap::Args)]
pub(super) struct ExplainOptions {
    /// A node's name, or an egress IP.
    #[arg(value_name = "NODE|IP")]
    subject: String,
    #[command(flatten)]
    controller: client::ControllerOptions,
    /// For people or for programs.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(super) async fn run(options: ExplainOptions) -> Result<ExitCode, Failure> {
    let controller = Controller::new(options.controller).map_err(Failure::Usage)?;
    let answer = controller.explain(&options.subject).await;
    let explanation = answer.map_err(Failure::NoAnswer)?;
    match options.output {
        Format::Json => output::print_json(&explanation)?,
        Format::Text => {
            for sentence in &explanation.sentences {
                output::print(sentence)?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
