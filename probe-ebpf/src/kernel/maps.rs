//! The maps, and the reflector's view of them.

use aya_ebpf::btf_maps::{Array, LruHashMap, PerCpuArray};
use aya_ebpf::helpers::bpf_ktime_get_boot_ns;
use aya_ebpf::macros::btf_map;
use probe_ebpf::maps::{
    AgentBeat, Assignment, KEY_SLOTS, MAX_PROBERS, ProbeConfig, ProbeKey, ProberKey, ProberSeen,
    ReflectStat,
};
use probe_ebpf::outcome::Outcome;
use probe_ebpf::reflect::Node;

#[btf_map]
static PROBE_CONFIG: Array<ProbeConfig, 1> = Array::new();
#[btf_map]
static PROBE_KEYS: Array<ProbeKey, KEY_SLOTS> = Array::new();
#[btf_map]
static AGENT_BEAT: Array<AgentBeat, 1> = Array::new();
#[btf_map]
static ASSIGNMENT: Array<Assignment, 1> = Array::new();
#[btf_map]
static REFLECT_STATS: PerCpuArray<ReflectStat, { Outcome::COUNT }> = PerCpuArray::new();
#[btf_map]
static PROBERS: LruHashMap<ProberKey, ProberSeen, MAX_PROBERS> = LruHashMap::new();

/// Counts a packet under its outcome.
#[inline(always)]
pub(super) fn count(outcome: Outcome) {
    if let Some(stat) = REFLECT_STATS.get_ptr_mut(outcome as u32) {
        // SAFETY: this CPU's own entry; a program is not preempted by another that counts here.
        unsafe { (*stat).packets += 1 };
    }
}

/// The node as its maps describe it.
pub(super) struct KernelNode;

impl Node for KernelNode {
    #[inline(always)]
    fn config(&self) -> Option<&ProbeConfig> {
        PROBE_CONFIG.get(0)
    }

    #[inline(always)]
    fn key(&self, slot: u32) -> Option<&ProbeKey> {
        PROBE_KEYS.get(slot)
    }

    #[inline(always)]
    fn beat(&self) -> Option<&AgentBeat> {
        AGENT_BEAT.get(0)
    }

    #[inline(always)]
    fn assignment(&self) -> Option<&Assignment> {
        ASSIGNMENT.get(0)
    }

    #[inline(always)]
    fn now(&self) -> u64 {
        // SAFETY: a helper without arguments.
        unsafe { bpf_ktime_get_boot_ns() }
    }

    #[inline(always)]
    fn answered(&self, prober: &ProberKey, now: u64) {
        if let Some(seen) = PROBERS.get_ptr_mut(prober) {
            // SAFETY: the entry stays in memory while the program runs. Two CPUs that answer one
            // prober at once may lose a count, no more.
            unsafe {
                (*seen).last_ns = now;
                (*seen).probes += 1;
            }
        } else {
            // A full map forgets whoever has been silent for longest; the answer does not depend
            // on it.
            let _ = PROBERS.insert(
                prober,
                &ProberSeen {
                    last_ns: now,
                    probes: 1,
                },
                0,
            );
        }
    }
}
