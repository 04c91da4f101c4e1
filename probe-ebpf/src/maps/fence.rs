//! The maps of the fence.

use super::Address;
use crate::fence::FenceOutcome;

/// Key of `EGRESS_IPS`: a guarded address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(C)]
pub struct EgressIp {
    /// IPv4 in its mapped form.
    pub address: [u8; 16],
}

impl From<Address> for EgressIp {
    #[inline(always)]
    fn from(address: Address) -> Self {
        let address = address.octets();
        Self { address }
    }
}

/// Whether packets may leave from a guarded address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u32)]
pub enum Guard {
    /// Never: it belongs elsewhere.
    #[default]
    Shut,
    /// While the node holds its lease: it is the node's own.
    Own,
}

/// Value of `EGRESS_IPS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct EgressGuard {
    /// What may leave.
    pub guard: Guard,
    /// Padding.
    pub pad: u32,
}

impl From<Guard> for EgressGuard {
    fn from(guard: Guard) -> Self {
        Self { guard, pad: 0 }
    }
}

/// `FENCE_STATS`, by outcome and CPU. The agent writes the names once, before anything counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct FenceStat {
    /// Packets with this outcome.
    pub packets: u64,
    /// The outcome that is counted here.
    pub outcome: FenceOutcome,
    /// Padding.
    pub pad: u32,
}
