//! Pulsepath in user space: what every daemon shares, and the node's agent.
//!
//! - [`settings`], [`logging`] and [`http`] are common to all daemons. They know nothing of probes.
//! - [`keys`] and [`session`] are the prober's half: keys, and the engine that probes.
//! - [`kernel`] and [`interfaces`] are the node's half: programs, maps and links, and where they
//!   belong. [`egress`] holds the node's egress IPs, and [`witness`] observes other nodes, as
//!   [`channel`] says; [`tunnels`] tells what flows between nodes. [`agent`] puts them to work.

#![deny(unsafe_code)]

pub mod agent;
pub mod channel;
pub mod egress;
pub mod http;
pub mod interfaces;
pub mod kernel;
pub mod keys;
pub mod logging;
mod private;
pub mod session;
pub mod settings;
pub mod tunnels;
pub mod witness;
