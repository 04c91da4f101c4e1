//! The fence on real devices: what leaves a node with a lease, without one, and while programs
//! change.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests panic like the tests themselves"
)]

mod chain;
mod devices;
mod keeper;
mod lease;
#[path = "../egress/pings.rs"]
mod pings;
mod scene;
mod stream;
mod upgrade;
