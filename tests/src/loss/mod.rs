//! What the loss of packets does to nodes with which nothing is wrong: false failovers, with and without
//! asking others, and lapses of leases, with and without votes. A thousand nodes, each packet lost with
//! a chance of its own, in each direction.
//!
//! Almost all of the time nothing can happen, and that time is skipped: only the losses that may lead
//! to something are drawn, as often as they come in so many hours. What then follows is played with the
//! real cores (monitor, prober, witness, lease) on a simulated clock and network.

#![expect(
    clippy::unwrap_used,
    reason = "whatever fails in a simulation is a mistake in it"
)]

mod chance;
mod failovers;
mod lapses;
mod net;
mod witness;

use std::time::Duration;

use controller::health::HealthSettings;
use controller::monitor::MonitorSettings;
use probe_user::session::ProbeSettings;

pub use self::failovers::{FATAL, Failovers, is_given_up};
pub use self::lapses::{Lapses, WITNESSES};

/// How many nodes there are.
pub const NODES: u32 = 1000;
const PERIOD: Duration = Duration::from_millis(200);
const TIMEOUT: Duration = Duration::from_secs(1);
/// Of `fencing = "quorum"`.
const LEASE: Duration = Duration::from_millis(1400);
const PORT: u16 = 862;

/// The default profile.
const SETTINGS: MonitorSettings = MonitorSettings {
    probe: ProbeSettings {
        period: PERIOD,
        reply_window: TIMEOUT,
        port: PORT,
    },
    health: HealthSettings {
        timeout: TIMEOUT,
        unavailable_timeout: Duration::ZERO,
        announce_after: Duration::from_secs(5),
    },
    ask: true,
};

/// How many rounds of probes that many hours have, of all nodes together.
fn rounds(hours: f64) -> u64 {
    (f64::from(NODES) * hours * 3600.0 / PERIOD.as_secs_f64()) as u64
}
