//! `pulsepath watch`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use futures_util::StreamExt as _;

use super::output::{self, Format};
use super::{Failure, time};
use crate::api::{StreamLine, Transition};
use crate::client::{self, Controller};

/// Time to the first attempt to connect again; doubled with each one that fails.
const FIRST_RETRY: Duration = Duration::from_millis(500);
/// The longest time between two attempts.
const LAST_RETRY: Duration = Duration::from_secs(10);
/// No line is nearly as long: a longer one is no transition.
const LINE_MAX: usize = 64 * 1024;

/// Options of `pulsepath watch`.
#[derive(clap::Args)]
pub(super) struct WatchOptions {
    #[command(flatten)]
    controller: client::ControllerOptions,
    /// For people or for programs.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Runs until it is interrupted. The first connection has to succeed, so that a wrong address is
/// an error and not a wait.
pub(super) async fn run(options: WatchOptions) -> Result<ExitCode, Failure> {
    let controller = Controller::new(options.controller).map_err(Failure::Usage)?;
    let mut stream = controller.transitions().await.map_err(Failure::NoAnswer)?;
    loop {
        let ended = follow(stream, options.output).await?;
        eprintln!(
            "pulsepath: the stream from {} has ended: {ended:#}",
            controller.url()
        );
        stream = reconnect(&controller).await;
        eprintln!(
            "pulsepath: connected again; what happened in between was not shown, \
             `pulsepath status` shows how things stand"
        );
    }
}

/// Prints what comes until the stream ends, and returns why it did.
async fn follow(stream: reqwest::Response, format: Format) -> Result<anyhow::Error, Failure> {
    let mut chunks = stream.bytes_stream();
    let mut lines = Lines::default();
    while let Some(chunk) = chunks.next().await {
        match chunk {
            Ok(chunk) => lines.extend(&chunk),
            Err(error) => return Ok(client::root_cause(error)),
        }
        while let Some(line) = lines.next() {
            let line = match serde_json::from_slice::<StreamLine>(&line) {
                Ok(line) => line,
                Err(error) => {
                    return Ok(anyhow::Error::new(error).context("a line is no transition"));
                }
            };
            print(&line, format)?;
        }
        if lines.partial.len() > LINE_MAX {
            return Ok(anyhow::anyhow!("a line is longer than {LINE_MAX} bytes"));
        }
    }
    Ok(anyhow::anyhow!("the controller closed it"))
}

/// Tries until it succeeds, less and less often.
async fn reconnect(controller: &Controller) -> reqwest::Response {
    let mut wait = FIRST_RETRY;
    loop {
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(LAST_RETRY);
        match controller
            .transitions()
            .await
            .context("still no connection")
        {
            Ok(stream) => return stream,
            Err(error) => eprintln!("pulsepath: {error:#}; trying again in {wait:?}"),
        }
    }
}

fn print(line: &StreamLine, format: Format) -> Result<(), Failure> {
    match (format, line) {
        (Format::Json, line) => output::print_json(line)?,
        (Format::Text, StreamLine::Transition(transition)) => {
            output::print(&describe(transition, output::use_colour()))?;
        }
        (Format::Text, StreamLine::Missed { missed }) => {
            eprintln!("pulsepath: too slow: {missed} transitions were not shown");
        }
    }
    Ok(())
}

fn describe(transition: &Transition, colour: bool) -> String {
    let Transition {
        at,
        node,
        from,
        to,
        reason,
        silence_ms,
        last_tunnel_packet,
        ..
    } = transition;
    let tunnels = last_tunnel_packet.map(|at| format!(", its tunnels busy until {at}"));
    let (from, to) = (
        output::state(*from, 0, colour),
        output::state(*to, 0, colour),
    );
    format!(
        "{at} {node} {from} -> {to} ({reason}, silent for {}{})",
        time::words_of_ms(*silence_ms),
        tunnels.unwrap_or_default()
    )
}

/// Cuts a stream of bytes into lines.
#[derive(Default)]
struct Lines {
    partial: Vec<u8>,
}

impl Lines {
    fn extend(&mut self, bytes: &[u8]) {
        self.partial.extend_from_slice(bytes);
    }

    /// The next whole line, without its end. Empty ones, which keep a connection alive, are left
    /// out.
    fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            let end = self.partial.iter().position(|byte| *byte == b'\n')?;
            let mut line = self.partial.drain(..=end).collect::<Vec<_>>();
            line.truncate(end);
            if !line.trim_ascii().is_empty() {
                return Some(line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_however_the_stream_is_cut() {
        let text = b"one\n\n\r\ntwo\nthree\n";
        for cut in 0..text.len() {
            let mut lines = Lines::default();
            let mut whole = Vec::new();
            for part in [&text[..cut], &text[cut..]] {
                lines.extend(part);
                whole.extend(std::iter::from_fn(|| lines.next()));
            }
            assert_eq!(whole, [&b"one"[..], b"two", b"three"]);
        }
    }
}
