//! Everything that decides about nodes, and everything that shows what was decided.
//!
//! `health` holds the rules and depends on nothing outside itself; `monitor` feeds it from the
//! prober; `failover` decides who owns which egress IP, and `channel` tells the agents; `tunnels` asks
//! them what flows between nodes; `standalone` runs all of it from a configuration file, `kubernetes` in a
//! cluster; `api` is what the HTTP interface
//! says and `client` reads, for the command line client in `cli`.

#![forbid(unsafe_code)]

pub mod api;
pub mod channel;
pub mod cli;
mod client;
pub mod clock;
pub mod consumers;
pub mod daemon;
pub mod failover;
pub mod grpc;
pub mod health;
pub mod kubernetes;
pub mod metrics;
pub mod monitor;
pub mod run;
pub mod services;
pub mod standalone;
pub mod tenure;
pub mod tunnels;
