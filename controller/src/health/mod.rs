//! Which state a node is in.
//!
//! [`rules`] is the table of states as a pure function; [`Health`] applies it to all nodes. Both
//! are told what happened and when, and say what follows from it: no clock, socket, thread or
//! channel here, and nothing from the rest of the crate.

mod core;
mod rules;
mod state;

pub use self::core::{Health, HealthSettings, Heard, Node, NodeIndex, Output, Recorded};
pub use self::rules::{ProbeOutcome, Verdict, judge};
pub use self::state::{Reason, State};
