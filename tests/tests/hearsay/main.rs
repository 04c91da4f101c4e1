//! Nodes that the controller does not hear, while others do, or do not, or receive from its tunnels.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests panic like the tests themselves"
)]

mod lost;
mod path;
mod scene;
mod tunnels;
