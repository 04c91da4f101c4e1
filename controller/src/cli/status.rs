//! `pulsepath status`.

use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use super::output::{self, Format};
use super::{Failure, gateways, time};
use crate::api::{Agent, Node, NodeList, State};
use crate::client::{self, Controller};

/// Options of `pulsepath status`.
#[derive(clap::Args)]
pub(super) struct StatusOptions {
    #[command(flatten)]
    controller: client::ControllerOptions,
    /// For people or for programs.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(super) async fn run(options: StatusOptions) -> Result<ExitCode, Failure> {
    let controller = Controller::new(options.controller).map_err(Failure::Usage)?;
    let list = controller.nodes().await.map_err(Failure::NoAnswer)?;
    let gateways = match list.controller.leads {
        true => Some(controller.gateways().await.map_err(Failure::NoAnswer)?),
        false => None,
    };
    match options.output {
        Format::Json => {
            output::print_json(&list)?;
            if let Some(gateways) = gateways.filter(|it| !it.gateways.is_empty()) {
                output::print_json(&gateways)?;
            }
        }
        Format::Text => {
            for line in table(&list, SystemTime::now(), output::use_colour()) {
                output::print(&line)?;
            }
            let lines = match gateways {
                Some(gateways) => gateways::lines(&gateways, SystemTime::now()),
                None => vec![elsewhere(&list)],
            };
            for line in lines {
                output::print(&line)?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Where to ask for egress IPs.
fn elsewhere(list: &NodeList) -> String {
    match &list.controller.leader {
        Some(leader) => format!("egress IPs: {leader} leads, this controller does not"),
        None => "egress IPs: nobody leads".to_owned(),
    }
}

const HEADINGS: [&str; 8] = [
    "NODE",
    "STATE",
    "FOR",
    "LAST REPLY",
    "RTT",
    "LOSS",
    "AGENT",
    "ADDRESSES",
];
/// Which of the columns is the state's.
const STATE: usize = 1;

/// The lines of the table, and below it what deserves attention.
fn table(list: &NodeList, now: SystemTime, colour: bool) -> Vec<String> {
    let rows = list
        .nodes
        .iter()
        .map(|node| row(node, now))
        .collect::<Vec<_>>();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells
            .chain([HEADINGS[column].len()])
            .max()
            .unwrap_or_default()
    };
    let widths: [usize; HEADINGS.len()] = std::array::from_fn(width);
    let line = |cells: [String; HEADINGS.len()], state: Option<State>| {
        let padded = cells.iter().enumerate().map(|(column, cell)| match state {
            Some(state) if column == STATE => output::state(state, widths[column], colour),
            _ => format!("{cell:width$}", width = widths[column]),
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let mut lines = vec![line(HEADINGS.map(str::to_owned), None)];
    let states = list.nodes.iter().map(|node| Some(node.state));
    lines.extend(
        rows.into_iter()
            .zip(states)
            .map(|(row, state)| line(row, state)),
    );
    for node in &list.nodes {
        let conditions = node.conditions.iter();
        lines.extend(
            conditions.map(|condition| {
                format!("{}: {}: {}", node.name, condition.name, condition.message)
            }),
        );
    }
    lines
}

fn row(node: &Node, now: SystemTime) -> [String; HEADINGS.len()] {
    let unknown = || "-".to_owned();
    let since = now.duration_since(node.since.0).unwrap_or_default();
    let last_reply = node
        .last_reply_ago_ms
        .map(|ago| format!("{} ago", time::words_of_ms(ago)));
    let round_trip = node.round_trip.map(|rtt| time::words_of_ms(rtt.last * 1e3));
    let addresses = node.addresses.iter().map(|address| {
        let silent = if address.answering { "" } else { " (silent)" };
        format!("{}{silent}", address.address)
    });
    [
        node.name.clone(),
        node.state.to_string(),
        time::words(since),
        last_reply.unwrap_or_else(unknown),
        round_trip.unwrap_or_else(unknown),
        node.loss
            .map_or_else(unknown, |loss| format!("{:.0}%", loss * 100.0)),
        node.agent.as_ref().map_or_else(unknown, agent),
        addresses.collect::<Vec<_>>().join(", "),
    ]
}

fn agent(agent: &Agent) -> String {
    let word = match agent {
        Agent { draining: true, .. } => "draining",
        Agent {
            checks_ok: false, ..
        } => "checks fail",
        Agent { up: true, .. } => "up",
        Agent { up: false, .. } => "silent",
    };
    match agent.beat_age_ms {
        Some(age) => {
            let age = Duration::from_millis(age.into());
            format!("{word}, beat {} ago", time::words(age))
        }
        None => format!("{word}, no beat yet"),
    }
}
