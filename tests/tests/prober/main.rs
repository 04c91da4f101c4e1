//! The prober over real sockets, against real reflectors and false ones, and the command line
//! client that stands on it.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests panic like the tests themselves"
)]

mod controller;
mod false_node;
mod ping;
mod probing;
mod refusals;
mod replies;
mod scene;
mod times;
mod views;
