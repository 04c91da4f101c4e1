//! Agents as witnesses: told by a controller over the control channel, they keep another node's lease
//! in its kernel, and their promises through everything that can happen to them.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests panic like the tests themselves"
)]

mod duties;
mod memory;
mod questions;
mod scene;
mod shown;
mod votes;
