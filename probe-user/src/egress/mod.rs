//! The egress IPs that this node holds.
//!
//! [`apply`] decides (no clock, no socket), [`net`] is the node's network as the kernel shows it,
//! [`record`] what survives the agent, and [`task`] drives them; [`offline`] does without. Everybody else knows [`Handle`]
//! and the types. Nothing in here knows of the controller, of gRPC, or of the agent's main loop.

mod apply;
mod fencing;
mod handle;
mod net;
mod offline;
mod record;
mod task;
mod types;

pub use fencing::{Fencing, NoFence, NotFenced, Outcome, Pending};
pub use handle::{ApplyError, Counters, Handle, Status};
pub use offline::{Found, OfflineError, Removed, found, remove};
pub use record::RecordError;
pub use task::{Assignment, Egress, EgressError, Options};
pub use types::{AddressReport, AddressState, Claim, Desired, EgressIp, Gateway};

use crate::logging::in_words;
