//! The targets, found by id, by address, or by a handle that outlives them harmlessly.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::IpAddr;

use super::target::{TargetError, TargetId, TargetState};

/// A target's slot, while it is the same target's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Handle {
    index: u32,
    generation: u32,
}

impl Handle {
    pub(super) fn index(self) -> u32 {
        self.index
    }
}

struct Slot {
    generation: u32,
    target: Option<TargetState>,
}

/// Keeps the targets in as few slots as there have ever been at once: the lowest free one is
/// filled first, so that slot numbers, and with them phases, stay evenly spread.
#[derive(Default)]
pub(super) struct Registry {
    slots: Vec<Slot>,
    free: BinaryHeap<Reverse<u32>>,
    by_id: HashMap<TargetId, Handle>,
    by_address: HashMap<IpAddr, Handle>,
}

impl Registry {
    pub(super) fn find(&self, id: TargetId) -> Option<Handle> {
        self.by_id.get(&id).copied()
    }

    pub(super) fn find_address(&self, address: IpAddr) -> Option<Handle> {
        self.by_address.get(&address).copied()
    }

    pub(super) fn has(&self, handle: Handle) -> bool {
        let slot = &self.slots[handle.index as usize];
        slot.generation == handle.generation
    }

    pub(super) fn get_mut(&mut self, handle: Handle) -> Option<&mut TargetState> {
        let slot = &mut self.slots[handle.index as usize];
        slot.target
            .as_mut()
            .filter(|_| slot.generation == handle.generation)
    }

    /// Whether `id` may have these addresses.
    pub(super) fn check(&self, id: TargetId, addresses: &[IpAddr]) -> Result<(), TargetError> {
        for &address in addresses {
            let owner = self
                .find_address(address)
                .and_then(|handle| self.slots[handle.index as usize].target.as_ref())
                .map(|target| target.id);
            if let Some(owner) = owner.filter(|owner| *owner != id) {
                return Err(TargetError::AddressTaken { address, owner });
            }
        }
        Ok(())
    }

    /// Adds a target whose id and addresses are free.
    pub(super) fn add(&mut self, target: TargetState) -> Handle {
        let index = self.free.pop().map_or_else(
            || {
                self.slots.push(Slot {
                    generation: 0,
                    target: None,
                });
                // Ids are 32 bits wide, so there are never more targets than that.
                self.slots.len() as u32 - 1
            },
            |Reverse(index)| index,
        );
        let slot = &mut self.slots[index as usize];
        let handle = Handle {
            index,
            generation: slot.generation,
        };
        self.by_id.insert(target.id, handle);
        self.by_address
            .extend(target.addresses().map(|address| (address, handle)));
        slot.target = Some(target);
        handle
    }

    /// Changes a target, and finds it by its new addresses.
    pub(super) fn update(&mut self, handle: Handle, change: impl FnOnce(&mut TargetState)) {
        let slot = &mut self.slots[handle.index as usize];
        if let Some(target) = slot.target.as_mut() {
            for address in target.addresses() {
                self.by_address.remove(&address);
            }
            change(target);
            self.by_address
                .extend(target.addresses().map(|address| (address, handle)));
        }
    }

    pub(super) fn remove(&mut self, id: TargetId) {
        let Some(handle) = self.by_id.remove(&id) else {
            return;
        };
        let slot = &mut self.slots[handle.index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        if let Some(target) = slot.target.take() {
            for address in target.addresses() {
                self.by_address.remove(&address);
            }
        }
        self.free.push(Reverse(handle.index));
    }
}
