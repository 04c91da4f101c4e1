//! A node's kernel: its lease, and its fence. Only a reboot loses them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;

use probe_ebpf::lease::{Ask, Keeper, consider};
use probe_ebpf::maps::{Assignment, NodeLease, Witness};
use probe_user::kernel::WitnessSet;

pub(crate) struct Kernel {
    pub(crate) assignment: Assignment,
    witnesses: BTreeMap<u64, Witness>,
    lease: RefCell<NodeLease>,
    /// The addresses that pass under the lease.
    own: Vec<IpAddr>,
    /// The boot clock's rate in parts per thousand of the controller's clock's.
    rate: u64,
    /// When it booted, ms.
    booted: u64,
}

impl Keeper for Kernel {
    fn witness(&self, instance: u64) -> Option<&Witness> {
        self.witnesses.get(&instance)
    }

    fn change_lease<T>(&self, change: impl FnOnce(&mut NodeLease) -> T) -> Option<T> {
        Some(change(&mut self.lease.borrow_mut()))
    }
}

impl Kernel {
    pub(crate) fn boot(now: u64, rate: u64, incarnation: u64) -> Self {
        Self {
            assignment: Assignment {
                incarnation,
                ..Assignment::default()
            },
            witnesses: BTreeMap::new(),
            lease: RefCell::default(),
            own: Vec::new(),
            rate,
            booted: now,
        }
    }

    pub(crate) const fn rate(&self) -> u64 {
        self.rate
    }

    /// The boot clock, ns: an hour has passed, so that 0 is no time.
    pub(crate) const fn clock(&self, now: u64) -> u64 {
        3_600_000_000_000 + (now - self.booted) * 1_000 * self.rate
    }

    pub(crate) fn consider(&self, now: u64, ask: &Ask, heeds_floors: bool) {
        let ask = match heeds_floors {
            true => *ask,
            false => Ask { floor: 0, ..*ask },
        };
        if ask.is_for_lease() {
            consider(&ask, &self.assignment, self.clock(now), self);
        }
    }

    /// Whether packets from the address leave the node.
    pub(crate) fn passes(&self, now: u64, address: IpAddr) -> bool {
        self.own.contains(&address) && self.lease.borrow().is_held(self.clock(now))
    }

    pub(crate) fn shut_all_but(&mut self, addresses: &[IpAddr]) {
        self.own.retain(|own| addresses.contains(own));
    }

    pub(crate) fn open(&mut self, addresses: Vec<IpAddr>) {
        self.own = addresses;
    }

    pub(crate) fn remove_witnesses(&mut self) {
        self.witnesses.clear();
    }

    pub(crate) fn set_witnesses(&mut self, set: Option<&WitnessSet>, lease_ms: u32) {
        let instances = set.map_or(&[][..], |set| &set.instances);
        let version = set.map_or(0, |set| set.version);
        let witness = |(slot, instance): (usize, &u64)| {
            let witness = Witness {
                set_version: version,
                set_size: instances.len() as u32,
                slot: slot as u32,
            };
            (*instance, witness)
        };
        self.witnesses = instances.iter().enumerate().map(witness).collect();
        self.assignment.witness_version = version;
        self.assignment.witness_count = instances.len() as u32;
        self.assignment.lease_limit_ms = lease_ms;
    }
}
