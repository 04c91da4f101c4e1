//! This node as a witness: a second observer of other nodes, and a keeper of their leases beside the
//! controller.
//!
//! [`Witness`] decides, without clock or socket: what it probes and votes for, what it promises, and
//! what it reports. [`start`] runs one over UDP in a thread of its own and gives a [`Handle`]. What a
//! controller tells it, and what it answers, are the types of [`crate::channel`]; what it must never
//! forget is behind [`Memory`]. Nothing here knows of the node's own lease or egress IPs.

mod core;
mod driver;
mod duty_file;
mod error;
mod handle;
mod memory;
mod questions;
mod slot;
mod tally;
#[cfg(test)]
mod tests;
mod votes;

pub use self::core::Witness;
pub use driver::{DriverError, Running, start};
pub use duty_file::DutyFile;
pub use error::{AskError, DutyError};
pub use handle::{Failure, Handle};
pub use memory::{Memory, Outcome};
pub use questions::QuestionId;
pub use tally::{Counts, Tally};
