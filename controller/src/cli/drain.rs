//! `pulsepath drain` and `pulsepath undrain`.

use std::process::ExitCode;

use super::Failure;
use super::output::{self, Format};
use crate::api::Drained;
use crate::client::{self, Controller};

/// Options of `pulsepath drain` and `pulsepath undrain`.
#[derive(clap::Args)]
pub(super) struct DrainOptions {
    /// The node's name.
    node: String,
    #[command(flatten)]
    controller: client::ControllerOptions,
    /// For people or for programs.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(super) async fn run(options: DrainOptions, drained: bool) -> Result<ExitCode, Failure> {
    let controller = Controller::new(options.controller).map_err(Failure::Usage)?;
    let answer = controller.set_drained(&options.node, drained).await;
    let answer = answer.map_err(Failure::NoAnswer)?;
    match options.output {
        Format::Json => output::print_json(&answer)?,
        Format::Text => output::print(&sentence(&answer))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn sentence(answer: &Drained) -> String {
    let Drained {
        node, addresses, ..
    } = answer;
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let still = addresses.join(", ");
    match (answer.drained, addresses.is_empty()) {
        (true, true) => format!("{node} is drained: it owns no egress IP"),
        (true, false) => format!("{node} is being drained: it still owns {still}"),
        (false, true) => format!("{node} is not drained: it may own egress IPs again"),
        (false, false) => format!("{node} is not drained: it owns {still}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_drained_node_still_owns_is_named() {
        let answer = |drained, addresses: &[&str]| {
            sentence(&Drained {
                node: "n1".to_owned(),
                drained,
                addresses: addresses.iter().map(|text| text.parse().unwrap()).collect(),
            })
        };
        let both = ["10.78.0.100", "fd78::100"];
        assert_eq!(
            answer(true, &both),
            "n1 is being drained: it still owns 10.78.0.100, fd78::100"
        );
        assert_eq!(answer(true, &[]), "n1 is drained: it owns no egress IP");
        assert!(answer(false, &[]).starts_with("n1 is not drained"));
    }
}
