//! The maps, and the reflector's view of them.

use aya_ebpf::bindings::{BPF_F_NO_PREALLOC, bpf_spin_lock as KernelLock};
use aya_ebpf::btf_maps::{Array, HashMap, LruHashMap, PerCpuArray};
use aya_ebpf::helpers::{bpf_ktime_get_boot_ns, bpf_spin_lock, bpf_spin_unlock};
use aya_ebpf::macros::btf_map;
use probe_ebpf::lease::{self, Ask, Keeper};
use probe_ebpf::maps::{
    AgentBeat, Assignment, KEY_SLOTS, MAX_PROBERS, MAX_WATCHED, MAX_WITNESSES, NodeLease,
    ProbeConfig, ProbeKey, ProberKey, ProberSeen, ReflectStat, StoredFloor, TunnelSeen,
    WatchedNode, Witness, WitnessId,
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
static WITNESSES: HashMap<WitnessId, Witness, MAX_WITNESSES> = HashMap::new();
#[btf_map]
static WITNESS_MEMORY: HashMap<
    WatchedNode,
    StoredFloor,
    MAX_WATCHED,
    { BPF_F_NO_PREALLOC as usize },
> = HashMap::new();
#[btf_map]
static NODE_LEASE: Array<NodeLease, 1> = Array::new();
#[btf_map]
static REFLECT_STATS: PerCpuArray<ReflectStat, { Outcome::COUNT }> = PerCpuArray::new();
#[btf_map]
static PROBERS: LruHashMap<ProberKey, ProberSeen, MAX_PROBERS> = LruHashMap::new();
#[btf_map]
pub(super) static TUNNEL_SEEN: Array<TunnelSeen, 1> = Array::new();

/// Counts a packet under its outcome.
#[inline(always)]
pub(super) fn count(outcome: Outcome) {
    if let Some(stat) = REFLECT_STATS.get_ptr_mut(outcome as u32) {
        // SAFETY: this CPU's own entry; a program is not preempted by another that counts here.
        unsafe { (*stat).packets += 1 };
    }
}

/// Boot clock, ns.
#[inline(always)]
pub(super) fn boot_now() -> u64 {
    // SAFETY: a helper without arguments.
    unsafe { bpf_ktime_get_boot_ns() }
}

/// When the node's lease ends or ended: boot clock, ns; 0 = it never had one.
#[inline(always)]
pub(super) fn lease_expires() -> u64 {
    // A word by itself: read without the lock it is the old value or the new one.
    NODE_LEASE.get(0).map_or(0, |lease| lease.expires_ns)
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
    fn consider(&self, ask: &Ask, now: u64) -> Outcome {
        Outcome::from_index(consider(ask, now)).unwrap_or(Outcome::LeaseNotGranted)
    }

    #[inline(always)]
    fn lease_expires(&self) -> u64 {
        lease_expires()
    }

    #[inline(always)]
    fn tunnel_seen(&self) -> Option<u64> {
        // A word by itself is the old value or the new one.
        TUNNEL_SEEN.get(0).map(|seen| seen.last_ns)
    }

    #[inline(always)]
    fn now(&self) -> u64 {
        boot_now()
    }

    #[inline(always)]
    fn answered(&self, prober: &ProberKey, now: u64, honoured: bool) {
        if let Some(seen) = PROBERS.get_ptr_mut(prober) {
            // SAFETY: the entry stays in memory while the program runs. Two CPUs that answer one
            // prober at once may lose a count, no more.
            unsafe {
                (*seen).last_ns = now;
                (*seen).probes += 1;
                if honoured {
                    (*seen).honoured_ns = now;
                }
            }
        } else {
            // A full map forgets whoever has been silent for longest; the answer does not depend
            // on it.
            let _ = PROBERS.insert(
                prober,
                &ProberSeen {
                    last_ns: now,
                    probes: 1,
                    honoured_ns: if honoured { now } else { 0 },
                },
                0,
            );
        }
    }
}

/// [`lease::consider`] as a function that the verifier judges by itself, once, and not again for every
/// way on which a packet can come to it. Returns the outcome's index.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn consider(ask: *const Ask, now: u64) -> u32 {
    // SAFETY: the verifier lets only pointers to a whole `Ask` be passed, or null.
    let (Some(ask), Some(assignment)) = (unsafe { ask.as_ref() }, ASSIGNMENT.get(0)) else {
        return Outcome::LeaseNotGranted as u32;
    };
    lease::consider(ask, assignment, now, &KernelNode) as u32
}

impl Keeper for KernelNode {
    #[inline(always)]
    fn witness(&self, instance: u64) -> Option<&Witness> {
        // SAFETY: the agent never changes an entry, and uses the memory of one that it has removed
        // only when no program can be reading it any more.
        unsafe { WITNESSES.get(&WitnessId { instance }) }
    }

    #[inline(always)]
    fn change_lease<T>(&self, change: impl FnOnce(&mut NodeLease) -> T) -> Option<T> {
        let lease = NODE_LEASE.get_ptr_mut(0)?;
        // SAFETY: the entry stays in memory while the program runs. Whoever changes it holds the
        // lock; others read single words. `change` calls no helper, which the verifier checks.
        unsafe {
            let lock: *mut KernelLock = (&raw mut (*lease).lock).cast();
            bpf_spin_lock(lock);
            let result = change(&mut *lease);
            bpf_spin_unlock(lock);
            Some(result)
        }
    }
}
