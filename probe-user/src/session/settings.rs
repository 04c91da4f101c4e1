//! How a prober asks.

use std::time::Duration;

/// How often, where to, and for how long a reply is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeSettings {
    /// Time between two rounds of probes to one target. Not zero.
    pub period: Duration,
    /// How old a probe may be when its reply arrives; an older one's reply is late.
    pub reply_window: Duration,
    /// UDP port of the reflectors.
    pub port: u16,
}
