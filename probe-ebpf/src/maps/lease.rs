//! The maps of the lease: what the agent has applied, and what the kernel makes of it.

use super::MAX_WITNESSES;

/// `ASSIGNMENT`: what the node has been given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Assignment {
    /// Random, new each time the programs are loaded from nothing.
    pub incarnation: u64,
    /// Assignment epoch that the agent has applied.
    pub applied_epoch: u64,
    /// Version of the witness set that the agent has applied.
    pub witness_version: u64,
    /// Witnesses in that set.
    pub witness_count: u32,
    /// Longest lease time that any request is granted, ms; 0: the node gets no lease. The agent
    /// writes the L that the controller has recorded for this node, so that nothing that is told
    /// to a kernel by packet alone makes a lease outlast what the record says.
    pub lease_limit_ms: u32,
}

/// Key of `WITNESSES`: a witness's instance id, which it chooses anew when it loses its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(C)]
pub struct WitnessId {
    /// Random, never 0.
    pub instance: u64,
}

/// Value of `WITNESSES`: a member of a set, and all that its vote's weight depends on. One value
/// that never changes, so that no vote is weighed by half of one set and half of the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Witness {
    /// Version of the set. Votes of different sets do not add up.
    pub set_version: u64,
    /// Members of the whole set.
    pub set_size: u32,
    /// The member's place in the set and in [`NodeLease::echoed_ns`].
    pub slot: u32,
}

/// The kernel's lock on a map value: under it the value's fields change together. The verifier
/// finds it by this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct bpf_spin_lock {
    val: u32,
}

/// [`bpf_spin_lock`], as Rust names it.
pub type SpinLock = bpf_spin_lock;

/// `NODE_LEASE`: the node's right to use its egress IPs. Written by the kernel alone, under the
/// lock; whoever wants one field only reads it without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct NodeLease {
    /// The kernel's.
    pub lock: SpinLock,
    /// Padding.
    pub pad: u32,
    /// Until when the lease is held, that moment excluded: boot clock, ns; 0 = never yet.
    pub expires_ns: u64,
    /// RENEWs honoured.
    pub renewals: u64,
    /// VOTEs honoured.
    pub votes: u64,
    /// Lapses that a later lease has ended. See [`NodeLease::lapses`].
    pub expiries: u64,
    /// The witness set whose votes follow.
    pub set_version: u64,
    /// The node's newest time that each witness has echoed, by slot: boot clock, ns; 0 = no vote.
    pub echoed_ns: [u64; MAX_WITNESSES],
}
