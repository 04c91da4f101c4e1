//! Log lines of every daemon: structured, on standard error.

use std::error::Error;
use std::io::{self, IsTerminal};

use serde::Deserialize;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

/// Environment variable that overrides the default filter.
const FILTER_VARIABLE: &str = "RUST_LOG";

/// How log lines are written.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    /// `RUST_LOG` is no filter.
    #[error("{FILTER_VARIABLE}={value:?} is not a log filter (such as `info,probe_user=debug`)")]
    Filter {
        /// What the variable holds.
        value: String,
        /// What is wrong with it.
        source: ParseError,
    },
    /// The default filter is no filter.
    #[error("{0:?} is not a log filter")]
    DefaultFilter(String, #[source] ParseError),
    /// Another part of the process has set up logging.
    #[error("logging is set up already")]
    AlreadySet,
}

/// Starts logging. `RUST_LOG` is honoured; where it is unset or empty, `default_filter` holds,
/// for instance `info`.
pub fn init(format: LogFormat, default_filter: &str) -> Result<(), LoggingError> {
    let filter = filter(std::env::var(FILTER_VARIABLE).ok(), default_filter)?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr);
    let set = match format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    set.map_err(|_| LoggingError::AlreadySet)
}

fn filter(variable: Option<String>, default_filter: &str) -> Result<EnvFilter, LoggingError> {
    match variable.filter(|value| !value.trim().is_empty()) {
        Some(value) => EnvFilter::builder()
            .parse(&value)
            .map_err(|source| LoggingError::Filter { value, source }),
        None => EnvFilter::builder()
            .parse(default_filter)
            .map_err(|source| LoggingError::DefaultFilter(default_filter.to_owned(), source)),
    }
}

/// An error with its causes, on one line.
pub fn in_words(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(here) = cause {
        text.push_str(": ");
        text.push_str(&here.to_string());
        cause = here.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unset_or_empty_variable_leaves_the_default() {
        for variable in [None, Some(String::new()), Some(" ".to_owned())] {
            assert_eq!(filter(variable, "warn").unwrap().to_string(), "warn");
        }
    }

    #[test]
    fn a_variable_that_is_no_filter_is_refused_by_name() {
        let error = filter(Some("probe=shouting".to_owned()), "info").unwrap_err();
        assert!(
            error.to_string().contains("RUST_LOG=\"probe=shouting\""),
            "{error}"
        );
    }
}
