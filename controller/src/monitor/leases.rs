//! Which nodes' leases the probes extend.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use probe_user::session::Renewal;

use super::core::{Monitor, target_of};
use crate::health::NodeIndex;
use crate::tenure::Tenure;

/// What probes ask of leases, and what they have asked.
#[derive(Debug)]
pub(super) struct Leases {
    /// By node.
    renewals: BTreeMap<String, Renewal>,
    /// How long they hold.
    tenure: Tenure,
    /// By node: when the newest reply arrived that was echoed while a lease was extended, as far as
    /// the prober was asked.
    echoed: BTreeMap<String, Instant>,
}

impl Default for Leases {
    fn default() -> Self {
        Self {
            renewals: BTreeMap::new(),
            tenure: Tenure::endless(),
            echoed: BTreeMap::new(),
        }
    }
}

impl Leases {
    /// When the right to extend them ends.
    pub(super) fn entitled(&self) -> Option<Instant> {
        self.tenure.end()
    }

    /// By how much probes to a node extend its lease; `None`: they do not.
    pub(super) fn time(&self, node: &str) -> Option<Duration> {
        self.renewals.get(node).map(|renewal| renewal.time)
    }

    fn note(&mut self, node: &str, echoed: Option<Instant>) {
        let Some(at) = echoed else { return };
        let newest = self.echoed.entry(node.to_owned()).or_insert(at);
        *newest = at.max(*newest);
    }
}

impl Monitor {
    /// Replaces what probes ask of nodes' leases, from their next probe on; of nodes that are not
    /// named they ask nothing. Replies that come after the end of `tenure` extend nothing.
    ///
    /// Returns, by node, when the newest reply arrived that was echoed until now in a probe that
    /// extended the lease. Nodes without one since the last call may be missing.
    pub fn renew(
        &mut self,
        renewals: BTreeMap<String, Renewal>,
        tenure: Tenure,
    ) -> BTreeMap<String, Instant> {
        self.leases.tenure = tenure;
        let before = std::mem::replace(&mut self.leases.renewals, renewals);
        let named = before.keys().chain(self.leases.renewals.keys());
        let indices: Vec<NodeIndex> = named
            .filter_map(|node| self.names.get(node).copied())
            .collect();
        for index in indices {
            self.ask_for_lease(index);
        }
        std::mem::take(&mut self.leases.echoed)
    }

    /// Has the probes to a node ask what they shall.
    pub(super) fn ask_for_lease(&mut self, index: NodeIndex) {
        let Some(slot) = self.slots[index.0 as usize].as_ref() else {
            return;
        };
        let node = &slot.spec.name;
        let renewal = self.leases.renewals.get(node).copied();
        let echoed = self.prober.set_renewal(target_of(index), renewal);
        self.leases.note(node, echoed);
    }

    /// Ends the probing of a node, and keeps what its probes have asked.
    pub(super) fn stop_probing(&mut self, index: NodeIndex) {
        if let Some(slot) = self.slots[index.0 as usize].as_ref() {
            let echoed = self.prober.set_renewal(target_of(index), None);
            self.leases.note(&slot.spec.name, echoed);
        }
        self.prober.remove(target_of(index));
    }
}
