//! The node's agent: puts the reflector in place, follows the management interface, and beats.
//!
//! [`cli`] is all that the binary calls. `run` owns the main loop, and `place` what it does about
//! interfaces; nobody else writes a map.
//! `checks` run beside it, `metrics` and `inspect` only read.

mod beat;
mod checks;
pub mod cli;
mod config;
mod control;
mod detach;
mod egress;
mod fence;
mod grpc_health;
mod inspect;
mod metrics;
mod place;
mod reflector;
mod run;
pub mod settings;
mod signals;
mod status;
mod tunnels;
mod user_space;
mod witness;

use crate::logging::in_words;
