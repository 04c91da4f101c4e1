//! The fence's maps, and its view of them.

use aya_ebpf::btf_maps::{HashMap, PerCpuArray};
use aya_ebpf::macros::btf_map;
use probe_ebpf::fence::{FenceOutcome, Guards};
use probe_ebpf::maps::{Address, EgressGuard, EgressIp, FenceStat, Guard, MAX_EGRESS_IPS};

use super::maps;

#[btf_map]
static EGRESS_IPS: HashMap<EgressIp, EgressGuard, MAX_EGRESS_IPS> = HashMap::new();
#[btf_map]
static FENCE_STATS: PerCpuArray<FenceStat, { FenceOutcome::COUNT }> = PerCpuArray::new();

/// Counts a packet under its outcome.
#[inline(always)]
pub(super) fn count(outcome: FenceOutcome) {
    if let Some(stat) = FENCE_STATS.get_ptr_mut(outcome as u32) {
        // SAFETY: this CPU's own entry. A packet that is sent from within another's sending can
        // cost a count, no more.
        unsafe { (*stat).packets += 1 };
    }
}

/// The guards as their map lists them.
pub(super) struct KernelGuards;

impl Guards for KernelGuards {
    #[inline(always)]
    fn guard(&self, address: Address) -> Option<Guard> {
        // SAFETY: one aligned word is read of the entry. Should the agent remove it at this moment
        // and give its memory to another address, then what is read is that one's guard.
        unsafe { EGRESS_IPS.get(EgressIp::from(address)) }.map(|it| it.guard)
    }

    #[inline(always)]
    fn lease_expires(&self) -> u64 {
        maps::lease_expires()
    }

    #[inline(always)]
    fn now(&self) -> u64 {
        maps::boot_now()
    }
}
