//! The egress IPs that this node holds.

mod handle;
mod types;

pub use handle::{ApplyError, Counters, Handle, Status};
pub use types::{AddressReport, AddressState, Claim, Desired, EgressIp};
