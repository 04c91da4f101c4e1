//! What probes ask of a node's lease.

use std::time::{Duration, Instant};

use probe_ebpf::wire::probe::{RENEW, VOTE};

/// By which right a prober extends a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// As the controller that decides.
    Controller,
    /// As the witness with this instance id, whose vote counts beside those of others.
    Witness(u64),
}

/// Has the probes to a target extend its lease.
///
/// A lease runs from the reply that a probe echoes, not from the probe: however long probes travel,
/// it cannot outlast what the prober knows by more than its time. Without a reply to echo, nothing
/// is extended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// By which right.
    pub right: Right,
    /// The oldest applied assignment epoch for which it is meant.
    pub floor: u64,
    /// How long the lease shall last from the reply that is echoed; whole milliseconds.
    pub time: Duration,
    /// Replies that arrived earlier are not echoed in a probe that extends the lease: they are from
    /// before the prober had the right to do so.
    pub since: Instant,
}

impl Renewal {
    pub(super) const fn flags(&self) -> u8 {
        match self.right {
            Right::Controller => RENEW,
            Right::Witness(_) => VOTE,
        }
    }

    /// Whether a probe extends the lease if it echoes a reply that arrived at `heard`, and the
    /// prober's right ends at `entitled`; `None`: never.
    pub(super) fn applies(&self, heard: Option<Instant>, entitled: Option<Instant>) -> bool {
        heard.is_some_and(|heard| {
            heard >= self.since && entitled.is_none_or(|entitled| heard < entitled)
        })
    }

    pub(super) fn millis(&self) -> u32 {
        self.time.as_millis().try_into().unwrap_or(u32::MAX)
    }

    pub(super) const fn instance(&self) -> u64 {
        match self.right {
            Right::Controller => 0,
            Right::Witness(instance) => instance,
        }
    }
}
