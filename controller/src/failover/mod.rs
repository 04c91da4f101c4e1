//! Which node owns which egress IP.
//!
//! [`Planner`] is told of gateways, nodes, states and reports, and says what to record and what to
//! tell the agents. It has no clock, file, socket or task. [`pool`](Pool), `placement`, `damping`
//! and `guard` are the rules that it applies, each on its own.

mod damping;
mod gateway;
mod guard;
mod lease;
mod output;
mod placement;
mod planner;
mod pool;
mod record;
mod selector;
mod together;
mod witnesses;

pub use self::damping::DampingSettings;
pub use self::gateway::Gateway;
#[cfg(test)]
pub(crate) use self::gateway::tests::gateway as plain_gateway;
pub use self::guard::GuardSettings;
pub use self::lease::{Fencing, Renewals};
pub use self::output::{Cause, Event, Output, Phase};
pub use self::planner::{NodeConfig, Observation, Planner, PlannerSettings};
pub use self::pool::{Pool, PoolError};
pub use self::record::{AddressRecord, DampingRecord, Record};
pub use self::selector::{Requirement, Selector, Values};
pub use self::together::{GatewayError, check_gateways, share_sources};
pub use self::witnesses::{Duty, Member, Roster, WitnessSettings};
