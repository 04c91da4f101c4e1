//! Egress IPs on one node, in real namespaces and against the real kernel.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests panic like the tests themselves"
)]

mod claims;
mod duplicates;
mod flows;
mod held_back;
mod ipv6;
mod pings;
mod process;
mod reconcile;
mod restart;
mod scene;
