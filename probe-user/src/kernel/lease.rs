//! What the agent tells the kernel of the lease, and what the kernel has made of it.

use std::collections::BTreeMap;

use aya::maps::{Array, HashMap, MapData, MapError};
use probe_ebpf::maps::{Assignment, MAX_WITNESSES, NodeLease, Witness, WitnessId};
use serde::{Deserialize, Serialize};

use super::error::KernelError;
use super::maps::{ASSIGNMENT, Maps, NODE_LEASE, WITNESSES, set};
use super::sys;
use super::value::Value;

/// BPF_F_LOCK: a value is read whole, under its lock.
const LOCKED: u64 = 4;

/// The maps of the lease.
pub(super) struct LeaseMaps {
    pub(super) lease: Array<MapData, Value<NodeLease>>,
    pub(super) witnesses: HashMap<MapData, Value<WitnessId>, Value<Witness>>,
}

/// The witnesses whose votes count for this node.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WitnessSet {
    /// Another one for every set; votes cast for another version do not count.
    pub version: u64,
    /// Their instance ids, by slot, none 0 and none twice; at most [`MAX_WITNESSES`].
    pub instances: Vec<u64>,
}

impl Maps {
    /// The lease as the kernel has it.
    pub fn lease(&self) -> Result<NodeLease, KernelError> {
        let lease = self.lease.lease.get(&0, LOCKED);
        lease
            .map(|lease| lease.0)
            .map_err(KernelError::map("read", NODE_LEASE))
    }

    /// The members of the witness set, by instance id.
    pub fn witnesses(&self) -> Result<BTreeMap<u64, Witness>, KernelError> {
        let mut witnesses = BTreeMap::new();
        for entry in self.lease.witnesses.iter() {
            let (id, witness) = entry.map_err(KernelError::map("read", WITNESSES))?;
            witnesses.insert(id.0.instance, witness.0);
        }
        Ok(witnesses)
    }

    /// Sets the longest lease that any request is granted, ms; 0: none. A lease that is held keeps
    /// its end.
    pub fn set_lease_limit(&mut self, lease_limit_ms: u32) -> Result<(), KernelError> {
        self.change_assignment(|assignment| assignment.lease_limit_ms = lease_limit_ms)
    }

    /// Says that the set of egress IPs of this epoch is in force. The agent's alone to write.
    pub fn set_applied_epoch(&mut self, applied_epoch: u64) -> Result<(), KernelError> {
        self.change_assignment(|assignment| assignment.applied_epoch = applied_epoch)
    }

    /// Puts this witness set in place of the present one. When it returns, no vote of another set
    /// can extend the lease any more; the lease that is held keeps its end. Between the two sets
    /// nobody's vote counts, for as long as the kernel takes to finish what it is at (some 10 ms);
    /// what fails half-way is put right by doing it again.
    pub fn set_witnesses(&mut self, set: &WitnessSet) -> Result<(), KernelError> {
        let wanted = members(set)?;
        if self.witnesses()? != wanted {
            self.remove_witnesses()?;
            for (instance, witness) in wanted {
                let inserted =
                    self.lease
                        .witnesses
                        .insert(Value(WitnessId { instance }), Value(witness), 0);
                inserted.map_err(KernelError::map("write", WITNESSES))?;
            }
        }
        let count = set.instances.len() as u32;
        self.change_assignment(|assignment| {
            assignment.witness_version = set.version;
            assignment.witness_count = count;
        })
    }

    /// Removes all, and waits until no program can have one in hand: only then may the entries'
    /// memory be used again, and only then is a removed witness's last vote in.
    fn remove_witnesses(&mut self) -> Result<(), KernelError> {
        for instance in self.witnesses()?.into_keys() {
            match self.lease.witnesses.remove(&Value(WitnessId { instance })) {
                Ok(()) | Err(MapError::KeyNotFound) => {}
                Err(error) => return Err(KernelError::map("write", WITNESSES)(error)),
            }
        }
        sys::wait_for_programs();
        Ok(())
    }

    /// Changes what the node has been given, if that makes it another.
    pub(super) fn change_assignment(
        &mut self,
        change: impl FnOnce(&mut Assignment),
    ) -> Result<(), KernelError> {
        let before = self.assignment()?;
        let mut after = before;
        change(&mut after);
        if after == before {
            return Ok(());
        }
        set(&mut self.assignment, ASSIGNMENT, 0, after)
    }
}

fn members(set: &WitnessSet) -> Result<BTreeMap<u64, Witness>, KernelError> {
    let set_size = set.instances.len();
    let mut members = BTreeMap::new();
    for (slot, &instance) in set.instances.iter().enumerate() {
        let witness = Witness {
            set_version: set.version,
            set_size: set_size as u32,
            slot: slot as u32,
        };
        members.insert(instance, witness);
    }
    if set_size > MAX_WITNESSES || members.len() != set_size || members.contains_key(&0) {
        return Err(KernelError::WitnessSet {
            instances: set.instances.clone(),
        });
    }
    Ok(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(instances: &[u64]) -> WitnessSet {
        WitnessSet {
            version: 3,
            instances: instances.to_vec(),
        }
    }

    #[test]
    fn each_witness_has_a_slot_of_its_own() {
        let members = members(&set(&[9, 4, 7])).unwrap();
        let mut slots: Vec<_> = members.values().map(|it| (it.slot, it.set_size)).collect();
        slots.sort_unstable();
        assert_eq!(slots, [(0, 3), (1, 3), (2, 3)]);
    }

    #[test]
    fn a_set_that_no_majority_can_be_told_of_is_refused() {
        for instances in [&[1, 2, 1][..], &[0], &[1, 2, 3, 4, 5, 6, 7, 8]] {
            let error = members(&set(instances)).unwrap_err();
            assert!(matches!(error, KernelError::WitnessSet { .. }), "{error}");
        }
    }
}
