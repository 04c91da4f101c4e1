//! What survives controllers: the record (Kubernetes status, or the state file), and the election lock
//! (a Kubernetes Lease).

use std::fmt;

use crate::{
    rules::{Clause, Rules},
    time::{MS, Ns},
    witness::Instance,
    world::{ADDRESSES, GATEWAYS, SLOTS},
};

/// An assignment epoch: grows with every change of a node's set, the controller's term in the high half.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Epoch {
    term: u16,
    count: u16,
}

impl Epoch {
    /// Before the first assignment; also the floor that excludes nothing.
    pub(crate) const NONE: Self = Self { term: 0, count: 0 };

    /// As probes carry it.
    pub(crate) fn number(self) -> u64 {
        u64::from(self.term) << 16 | u64::from(self.count)
    }

    const fn next(self, term: u16) -> Self {
        if term > self.term {
            Self { term, count: 0 }
        } else {
            Self {
                term,
                count: self.count + 1,
            }
        }
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.term, self.count)
    }
}

/// A witness set by slot, and the lease time. Replacing a witness, or changing L, makes a new version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Terms {
    pub(crate) version: u16,
    pub(crate) set: [Option<Instance>; SLOTS],
    pub(crate) lease_time: Ns,
}

impl Terms {
    /// Its members.
    pub(crate) fn members(&self) -> impl Iterator<Item = Instance> {
        self.set.iter().flatten().copied()
    }
}

/// What an agent is told: all of its node's assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Assignment {
    pub(crate) epoch: Epoch,
    own: u8,
    pub(crate) terms: Terms,
}

impl Assignment {
    /// Whether it gives the address to the node.
    pub(crate) const fn owns(&self, address: usize) -> bool {
        self.own & 1 << address != 0
    }
}

impl fmt::Display for Assignment {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own: Vec<_> = (0..ADDRESSES)
            .filter(|address| self.owns(*address))
            .collect();
        let Terms {
            version,
            lease_time,
            ..
        } = self.terms;
        write!(
            out,
            "epoch {}, addresses {own:?}, set version {version}, L {} ms",
            self.epoch,
            lease_time / MS
        )
    }
}

/// The record of one gateway node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodeRecord {
    pub(crate) epoch: Epoch,
    pub(crate) floor: Epoch,
    /// Addresses that it is meant to have.
    assigned: u8,
    /// Addresses that it may have: `assigned`, and what it has not been proven to have given up.
    may_hold: u8,
    /// Epoch in which an address was last given.
    pub(crate) given: [Epoch; ADDRESSES],
    /// Epoch in which an address was last taken away.
    pub(crate) taken: [Epoch; ADDRESSES],
    /// Every set that the node may have applied, oldest first.
    pub(crate) terms: Vec<Terms>,
    /// The largest L that may be in force there.
    pub(crate) largest_lease: Ns,
}

impl NodeRecord {
    /// A node that holds nothing, and has no set.
    pub(crate) fn new(lease_time: Ns) -> Self {
        Self {
            epoch: Epoch::NONE,
            floor: Epoch::NONE,
            assigned: 0,
            may_hold: 0,
            given: [Epoch::NONE; ADDRESSES],
            taken: [Epoch::NONE; ADDRESSES],
            terms: vec![Terms {
                version: 0,
                set: [None; SLOTS],
                lease_time,
            }],
            largest_lease: lease_time,
        }
    }

    /// The newest recorded set.
    pub(crate) fn newest(&self) -> &Terms {
        self.terms.last().expect("never empty")
    }

    /// What its agent is to apply.
    pub(crate) fn assignment(&self) -> Assignment {
        Assignment {
            epoch: self.epoch,
            own: self.assigned,
            terms: *self.newest(),
        }
    }

    pub(crate) const fn assigns(&self, address: usize) -> bool {
        self.assigned & 1 << address != 0
    }

    pub(crate) const fn may_hold(&self, address: usize) -> bool {
        self.may_hold & 1 << address != 0
    }

    pub(crate) const fn may_hold_any(&self) -> bool {
        self.may_hold != 0
    }

    /// Gives the node an address.
    pub(crate) const fn give(&mut self, term: u16, address: usize) {
        self.epoch = self.epoch.next(term);
        self.given[address] = self.epoch;
        self.assigned |= 1 << address;
        self.may_hold |= 1 << address;
    }

    /// Takes an address away: the node may hold it until [`NodeRecord::free`].
    pub(crate) const fn take(&mut self, term: u16, address: usize) {
        self.epoch = self.epoch.next(term);
        self.taken[address] = self.epoch;
        self.assigned &= !(1 << address);
    }

    /// The node has been proven to use the address no more.
    pub(crate) const fn free(&mut self, address: usize) {
        self.may_hold &= !(1 << address);
    }
}

/// The record: owners, epochs, floors, witness sets and L.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Record {
    version: u16,
    pub(crate) term: u16,
    pub(crate) nodes: Vec<NodeRecord>,
}

impl Record {
    /// A cluster that has never had a controller.
    pub(crate) fn new(lease_time: Ns) -> Self {
        Self {
            version: 0,
            term: 0,
            nodes: vec![NodeRecord::new(lease_time); GATEWAYS],
        }
    }

    /// What this record says, offered as the successor of another one.
    pub(crate) fn instead_of(self, other: &Self) -> Self {
        Self {
            version: other.version,
            ..self
        }
    }
}

/// The election lock: a Kubernetes Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lock {
    pub(crate) holder: Option<u8>,
    /// Grows with every renewal.
    pub(crate) renewals: u16,
}

/// The store: the API server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    pub(crate) record: Record,
    pub(crate) lock: Lock,
}

impl Store {
    /// A write of a record that is based on the version which the writer read or wrote last.
    /// Answers what was written, or nothing if somebody else has written since.
    pub(crate) fn write(&mut self, rules: Rules, mut record: Record) -> Option<Record> {
        if record.version != self.record.version && rules.has(Clause::WritesConditional) {
            return None;
        }
        record.version = self.record.version + 1;
        self.record = record.clone();
        Some(record)
    }

    /// Takes or renews the lock, on the condition that nobody has since `renewals`.
    pub(crate) fn lock(&mut self, by: u8, renewals: u16) -> bool {
        let granted = renewals == self.lock.renewals;
        if granted {
            self.lock = Lock {
                holder: Some(by),
                renewals: renewals + 1,
            };
        }
        granted
    }
}
