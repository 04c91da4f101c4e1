//! A real controller that probes real agents in network namespaces.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests panic like the tests themselves"
)]

mod configuration;
mod reload;
mod restart;
mod services;
mod states;
mod world;
