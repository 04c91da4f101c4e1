//! How results are printed.

use std::io::{self, IsTerminal as _, Write as _};

use serde::Serialize;

use crate::health::State;

/// For whom to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs: one JSON object a line.
    Json,
}

/// Prints one line, at once, so that a pipe sees it when it happens.
pub(super) fn print(line: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}

/// Prints one object as a line of JSON.
pub(super) fn print_json(value: &impl Serialize) -> io::Result<()> {
    print(&serde_json::to_string(value)?)
}

/// Whether to colour what people read: only on a terminal, and only if they do not mind
/// (https://no-color.org).
pub(super) fn use_colour() -> bool {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    io::stdout().is_terminal() && !unwanted
}

/// The state's name, in its colour, padded to `width`.
pub(super) fn state(state: State, width: usize, colour: bool) -> String {
    if !colour {
        return format!("{state:width$}");
    }
    let code = match state {
        State::Available => 32,
        State::Unavailable => 33,
        State::Unreachable => 31,
        State::Unknown => 90,
    };
    format!("\x1b[{code}m{state:width$}\x1b[0m")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_does_not_change_the_width_that_is_seen() {
        let plain = state(State::Available, 12, false);
        let coloured = state(State::Available, 12, true);
        assert_eq!(plain, "AVAILABLE   ");
        assert_eq!(coloured, format!("\x1b[32m{plain}\x1b[0m"));
    }
}
