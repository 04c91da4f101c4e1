//! The node over plain values instead of maps.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;

use probe_ebpf::lease::Ask;
use probe_ebpf::maps::{
    AgentBeat, Assignment, KEY_SLOTS, MAX_PROBERS, ProbeConfig, ProbeKey, ProberKey, ProberSeen,
};
use probe_ebpf::outcome::Outcome;
use probe_ebpf::reflect::Node;

use crate::agent::beat;

/// What the reflector knows, and has counted.
pub(in crate::agent) struct UserSpaceNode {
    config: ProbeConfig,
    keys: [ProbeKey; KEY_SLOTS],
    beat: AgentBeat,
    assignment: Assignment,
    packets: [u64; Outcome::COUNT],
    probers: RefCell<HashMap<ProberKey, ProberSeen>>,
}

impl UserSpaceNode {
    /// A node with an incarnation of its own: it ends with this process.
    pub(super) fn new() -> io::Result<Self> {
        // 0 means "none yet" on the wire.
        let incarnation = getrandom::u64()?.max(1);
        Ok(Self {
            config: ProbeConfig::new(0),
            keys: [ProbeKey::EMPTY; KEY_SLOTS],
            beat: AgentBeat::default(),
            assignment: Assignment {
                incarnation,
                ..Assignment::default()
            },
            packets: [0; Outcome::COUNT],
            probers: RefCell::new(HashMap::new()),
        })
    }

    pub(super) fn set_config(&mut self, config: ProbeConfig) {
        self.config = config;
    }

    pub(in crate::agent) const fn keys(&self) -> [ProbeKey; KEY_SLOTS] {
        self.keys
    }

    pub(super) fn set_keys(&mut self, keys: [ProbeKey; KEY_SLOTS]) {
        self.keys = keys;
    }

    pub(super) fn set_beat(&mut self, beat: AgentBeat) {
        self.beat = beat;
    }

    /// Counts a packet under its outcome.
    pub(super) fn count(&mut self, outcome: Outcome) {
        self.packets[outcome as usize] += 1;
    }

    /// The agent's sign of life.
    pub(in crate::agent) fn last_beat(&self) -> AgentBeat {
        self.beat
    }

    /// Incarnation and epoch.
    pub(in crate::agent) fn last_assignment(&self) -> Assignment {
        self.assignment
    }

    pub(in crate::agent) fn set_applied_epoch(&mut self, epoch: u64) {
        self.assignment.applied_epoch = epoch;
    }

    pub(in crate::agent) fn set_witness_version(&mut self, version: u64) {
        self.assignment.witness_version = version;
    }

    /// Packets with this outcome.
    pub(in crate::agent) fn packets(&self, outcome: Outcome) -> u64 {
        self.packets[outcome as usize]
    }

    /// How many probers are remembered.
    pub(in crate::agent) fn prober_count(&self) -> usize {
        self.probers.borrow().len()
    }
}

impl Node for UserSpaceNode {
    fn config(&self) -> Option<&ProbeConfig> {
        Some(&self.config)
    }

    fn key(&self, slot: u32) -> Option<&ProbeKey> {
        self.keys.get(slot as usize)
    }

    fn beat(&self) -> Option<&AgentBeat> {
        Some(&self.beat)
    }

    fn assignment(&self) -> Option<&Assignment> {
        Some(&self.assignment)
    }

    /// A process can stop at any time and leave its addresses behind: without a fence in the kernel
    /// there is no lease.
    fn consider(&self, _ask: &Ask, _now: u64) -> Outcome {
        Outcome::LeaseNotGranted
    }

    fn lease_expires(&self) -> u64 {
        0
    }

    /// Without kernel programs no tunnel is counted.
    fn tunnel_seen(&self) -> Option<u64> {
        Some(0)
    }

    fn now(&self) -> u64 {
        // CLOCK_BOOTTIME has been there since Linux 2.6.39; if it were not, the agent would have
        // failed at its first beat.
        beat::boot_now().unwrap_or_default()
    }

    fn answered(&self, prober: &ProberKey, now: u64, _honoured: bool) {
        let mut probers = self.probers.borrow_mut();
        if probers.len() >= MAX_PROBERS && !probers.contains_key(prober) {
            let oldest = probers
                .iter()
                .min_by_key(|(_, seen)| seen.last_ns)
                .map(|(key, _)| *key);
            if let Some(oldest) = oldest {
                probers.remove(&oldest);
            }
        }
        let seen = probers.entry(*prober).or_default();
        seen.last_ns = now;
        seen.probes += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_memory_forgets_whoever_was_unseen_for_longest() {
        let node = UserSpaceNode::new().unwrap();
        let prober = |port| ProberKey {
            address: [0; 16],
            port,
            pad: [0; 6],
        };
        for port in 0..=MAX_PROBERS as u16 {
            node.answered(&prober(port), 1000 + u64::from(port), false);
        }
        assert_eq!(node.prober_count(), MAX_PROBERS);
        assert!(!node.probers.borrow().contains_key(&prober(0)));
        assert!(
            node.probers
                .borrow()
                .contains_key(&prober(MAX_PROBERS as u16))
        );
    }
}
