//! Which state a node is in.
//!
//! [`rules`] is the table of states as a pure function; [`Health`] applies it to all nodes, and says
//! when others should be asked about one; [`evidence`] is what their answers mean. All are told what
//! happened and when, and say what follows from it: no clock, socket, thread or channel here, and
//! nothing from the rest of the crate.

mod core;
mod evidence;
mod node;
mod rules;
mod silence;
mod state;

pub use self::core::{Health, HealthSettings, Heard, NodeIndex, Output};
pub use self::evidence::Evidence;
pub use self::node::{Node, Recorded};
pub use self::rules::{ProbeOutcome, Verdict, judge};
pub use self::state::{Reason, State};
