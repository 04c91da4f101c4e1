//! The prober: asks many nodes, all the time, from one socket, and tells replies from everything
//! else that arrives.
//!
//! [`Prober`] is the core. It has no clock and no socket: callers hand it time and datagrams, and
//! take datagrams and [`Event`]s. It knows no health state; it says who answered what, and for
//! how long the prober itself was unable to ask. [`ProbeSocket`] is the adapter that runs a core
//! over UDP. Nothing here imports the kernel loader, the agent, or a runtime.

mod clock;
mod event;
mod prober;
mod registry;
mod renewal;
mod schedule;
mod settings;
mod stats;
mod target;
mod udp;
mod window;

pub use event::{Event, Transmit};
pub use prober::Prober;
pub use renewal::{Renewal, Right};
pub use settings::ProbeSettings;
pub use stats::{LAG_BOUNDS, Lag, ProberStats};
pub use target::{Target, TargetError, TargetId};
pub use udp::{Family, ProbeSocket, SocketError, SocketOptions, SocketStats, Waker};

#[cfg(test)]
mod tests;
