//! The controller without a cluster manager: one file says which nodes there are, another keeps
//! their states over a restart.

mod agents;
mod asking;
mod control;
mod egress;
mod fencing;
mod gateway_web;
mod gateways;
mod keeper;
mod keying;
mod messenger;
mod nodes;
mod probing;
mod publish;
mod reload;
mod renewing;
mod report;
mod rotation;
mod run;
mod settings;
mod state_file;
mod tunnel_web;
mod watch;
mod web;
mod witnessing;

pub mod keygen;

pub use self::control::ControlSettings;
pub use self::fencing::{FencingChoice, WitnessSettings};
pub use self::gateways::{Damping, Failback, FailoverSettings, GatewaySettings};
pub use self::nodes::{NodesError, Problem, Resolved, resolve};
pub use self::publish::{GrpcSettings, ServiceSettings};
pub use self::reload::ConfigError;
pub use self::run::{Options, RunError, run};
pub use self::settings::{NodeSettings, Profile, Settings};
pub use self::state_file::{Kept, StateFile, StateFileError};
