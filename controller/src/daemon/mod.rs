//! What a controller does wherever it runs.
//!
//! It probes, decides, tells agents and shows, as its settings say. `standalone` and `kubernetes` say
//! what it works on: which nodes and gateways there are, where the record goes, and when it is the one
//! that decides.

mod addresses;
mod agents;
mod asking;
mod cluster;
mod control;
mod controller;
mod egress;
mod events;
mod fencing;
mod files;
mod gateway_web;
mod gateways;
mod keying;
mod leader_web;
mod leading;
mod messenger;
mod news;
mod probing;
mod publish;
mod renewing;
mod report;
mod role;
mod settings;
mod tunnel_web;
mod watch;
mod web;
mod witnessing;

pub use self::cluster::{KubernetesSettings, LeaseSettings, ProbedNodes};
pub use self::control::ControlSettings;
pub use self::controller::DaemonError;
pub use self::fencing::{FencingChoice, WitnessSettings};
pub use self::files::{ConfigError, Options, check};
pub use self::gateways::{Damping, Failback, FailoverSettings, GatewaySettings};
pub use self::publish::{GrpcSettings, ServiceSettings};
pub use self::settings::{NodeSettings, Profile, Settings};

pub(crate) use self::addresses::parse_address;
pub(crate) use self::controller::{Configuration, Followers, Restored, Signals, Special, Wiring};
pub(crate) use self::egress::{Configured, EgressHandle};
pub(crate) use self::files::{Basis, Files};
pub(crate) use self::gateways::parse_source;
pub(crate) use self::news::{Herald, News};
pub(crate) use self::publish::groups;
pub(crate) use self::report::Unrecorded;
pub(crate) use self::role::{Mandate, Recorder, Role, Scribe};
pub(crate) use self::tunnel_web::ends as tunnel_ends;
