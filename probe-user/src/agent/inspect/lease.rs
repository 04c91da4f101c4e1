//! What the maps say of the lease and of the fence.

use std::collections::BTreeMap;
use std::net::IpAddr;

use probe_ebpf::maps::{Guard, NodeLease};
use serde::Serialize;

use super::report::CounterReport;
use crate::kernel::{Fence, Fenced, KernelError, Maps, NotFenced};

/// The node's right to use its egress IPs.
#[derive(Debug, Serialize)]
pub(super) struct Lease {
    pub(super) held: bool,
    pub(super) remaining_ms: u32,
    /// Since it ended; `None` while it is held, or if there never was one.
    pub(super) ended_ms: Option<u64>,
    /// The longest lease that any request is granted.
    pub(super) limit_ms: u32,
    pub(super) renewals: u64,
    pub(super) votes: u64,
    pub(super) lapses: u64,
    pub(super) witness_version: u64,
    pub(super) witnesses: Vec<WitnessReport>,
}

/// A member of the witness set.
#[derive(Debug, Serialize)]
pub(super) struct WitnessReport {
    pub(super) instance: String,
    pub(super) slot: u32,
    /// Since the newest time of the node's that it has echoed in a vote.
    pub(super) heard_ms: Option<u64>,
}

/// Where the fence is, what it guards, and what it has counted.
#[derive(Debug, Serialize)]
pub(super) struct FenceReport {
    pub(super) devices: Vec<Device>,
    /// `own` or `shut`, by address.
    pub(super) guards: BTreeMap<IpAddr, &'static str>,
    pub(super) counters: Vec<CounterReport>,
}

/// A device that the fence was put on.
#[derive(Debug, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(super) enum Device {
    /// It is in force.
    Fenced(Fenced),
    /// It is not, or something is ahead of it.
    NotFenced(NotFenced),
}

impl Lease {
    /// Reads the maps. `now` is the boot clock, ns.
    pub(super) fn new(maps: &Maps, now: u64) -> Result<Self, KernelError> {
        let (lease, assignment) = (maps.lease()?, maps.assignment()?);
        let witnesses = maps.witnesses()?.into_iter().map(|(instance, witness)| {
            let echoed = lease.echoed_ns.get(witness.slot as usize).copied();
            let echoed = echoed.filter(|_| lease.set_version == witness.set_version);
            WitnessReport {
                instance: format!("{instance:016x}"),
                slot: witness.slot,
                heard_ms: echoed.and_then(|echoed| ago(echoed, now)),
            }
        });
        let held = lease.is_held(now);
        Ok(Self {
            held,
            remaining_ms: NodeLease::remaining_ms(lease.expires_ns, now),
            ended_ms: ago(lease.expires_ns, now).filter(|_| !held),
            limit_ms: assignment.lease_limit_ms,
            renewals: lease.renewals,
            votes: lease.votes,
            lapses: lease.lapses(now),
            witness_version: assignment.witness_version,
            witnesses: witnesses.collect(),
        })
    }
}

impl FenceReport {
    /// Reads the maps, and looks at the devices.
    pub(super) fn new(fence: &Fence) -> Result<Self, KernelError> {
        let devices = fence.status()?.into_iter().map(|status| match status {
            Ok(fenced) => Device::Fenced(fenced),
            Err(not_fenced) => Device::NotFenced(not_fenced),
        });
        let guards = fence.entries()?.into_iter().map(|(address, guard)| {
            let guard = match guard {
                Guard::Own => "own",
                Guard::Shut => "shut",
            };
            (address, guard)
        });
        let counters = fence.counters()?.into_iter().map(|it| CounterReport {
            outcome: it.outcome.label(),
            packets: it.packets,
        });
        Ok(Self {
            devices: devices.collect(),
            guards: guards.collect(),
            counters: counters.collect(),
        })
    }
}

/// Milliseconds from `then` to `now` (boot clock, ns); `None` if `then` is 0, which means never.
pub(super) fn ago(then: u64, now: u64) -> Option<u64> {
    (then != 0).then(|| now.saturating_sub(then) / 1_000_000)
}
