//! Everything that decides about nodes, and everything that shows what was decided.
//!
//! `health` holds the rules and depends on nothing outside itself; `monitor` feeds it from the
//! prober; `standalone` runs both from a configuration file; `api` is what the HTTP interface
//! says and the command line client in `cli` reads.

#![forbid(unsafe_code)]

pub mod api;
pub mod channel;
pub mod cli;
pub mod consumers;
pub mod health;
pub mod metrics;
pub mod monitor;
pub mod standalone;
