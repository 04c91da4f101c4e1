//! The node's agent: puts the reflector in place, follows the management interface, and beats.
//!
//! [`cli`] is all that the binary calls. `run` owns the main loop, and `place` what it does about
//! interfaces; nobody else writes a map.
//! `checks` run beside it, `metrics` and `inspect` only read.

mod beat;
mod checks;
pub mod cli;
mod config;
mod detach;
mod inspect;
mod metrics;
mod place;
mod reflector;
mod run;
pub mod settings;
mod status;
mod user_space;

/// An error with its causes, on one line.
fn in_words(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(here) = cause {
        text.push_str(": ");
        text.push_str(&here.to_string());
        cause = here.source();
    }
    text
}
