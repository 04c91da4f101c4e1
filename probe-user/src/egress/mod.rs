//! The egress IPs that this node holds.

mod types;

pub use types::{AddressReport, AddressState, Claim, Desired, EgressIp};
