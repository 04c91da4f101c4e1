//! Pulsepath in user space: what every daemon shares, and the node's agent.
//!
//! [`settings`], [`logging`] and [`http`] are common to all daemons. They know nothing of probes.

#![deny(unsafe_code)]

pub mod agent;
pub mod http;
pub mod interfaces;
pub mod kernel;
pub mod keys;
pub mod logging;
pub mod session;
pub mod settings;
