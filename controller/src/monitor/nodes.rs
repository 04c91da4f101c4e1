//! Which nodes there are, and which of them are monitored.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use probe_ebpf::wire::NodeId;
use probe_user::session::Target;

use super::board::Cell;
use super::core::{Monitor, Slot, target_of};
use super::{NodeSpec, NodeView, Notice, Reading};
use crate::consumers::Affected;
use crate::health::{NodeIndex, Reason, Recorded};

impl Monitor {
    /// Replaces the nodes that there are. Those whose name stays keep their state.
    pub fn apply(&mut self, now: Reading, specs: Vec<NodeSpec>) {
        let staying: HashSet<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
        let gone = |(name, index): (&String, &NodeIndex)| {
            (!staying.contains(name.as_str())).then_some(*index)
        };
        let gone: Vec<NodeIndex> = self.names.iter().filter_map(gone).collect();
        for index in gone {
            self.delete(now, index);
        }
        self.release_moving_addresses(&specs);
        for spec in specs {
            match self.names.get(&spec.name) {
                Some(&index) => self.update(now, index, spec),
                None => self.add(now, spec),
            }
        }
        self.seat_panel();
        self.tell_if_settled();
    }

    /// Takes note that other nodes interest consumers now.
    pub fn handle_interest(&mut self, now: Reading) {
        let affected: Vec<NodeIndex> = match self.consumers.take_affected() {
            None => return,
            Some(Affected::All) => self.names.values().copied().collect(),
            Some(Affected::Nodes(names)) => names
                .iter()
                .filter_map(|name| self.names.get(name).copied())
                .collect(),
        };
        for index in affected {
            self.follow_interest(now, index);
        }
    }

    fn add(&mut self, now: Reading, spec: NodeSpec) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            NodeIndex(self.slots.len() as u32 - 1)
        });
        let cell = Cell::new(NodeView::new(spec.name.clone(), now.wall));
        show_spec(&cell, &spec);
        self.names.insert(spec.name.clone(), index);
        self.board.insert(spec.name.clone(), cell.clone());
        let slot = Slot {
            spec,
            cell,
            held: Vec::new(),
            monitored: false,
            settled: true,
        };
        slot.show_keys();
        self.slots[index.0 as usize] = Some(slot);
        self.follow_interest(now, index);
    }

    fn update(&mut self, now: Reading, index: NodeIndex, spec: NodeSpec) {
        let Some(slot) = self.slot_mut(index) else {
            return;
        };
        let before = std::mem::replace(&mut slot.spec, spec);
        show_spec(&slot.cell, &slot.spec);
        slot.show_keys();
        let readdressed = before.addresses != slot.spec.addresses;
        let has_address = !slot.spec.addresses.is_empty();
        if !slot.monitored || !(readdressed || before.keys != slot.spec.keys) {
            return;
        }
        self.probe(now, index);
        match (readdressed, has_address) {
            (true, true) => self.health.handle_new_addresses(now.instant, index),
            (true, false) => self.health.handle_no_address(now.instant, index),
            (false, _) => {}
        }
        self.publish(now, index);
    }

    fn delete(&mut self, now: Reading, index: NodeIndex) {
        self.end(now, index);
        let Some(slot) = self.slots[index.0 as usize].take() else {
            return;
        };
        self.free.push(index);
        self.panel.forget(index);
        self.names.remove(&slot.spec.name);
        self.board.remove(&slot.spec.name);
    }

    /// Stops probing wherever an address goes to another node, so that each node can be given its
    /// new ones in any order.
    fn release_moving_addresses(&mut self, specs: &[NodeSpec]) {
        let owners: HashMap<IpAddr, &str> = specs
            .iter()
            .flat_map(|spec| {
                spec.addresses
                    .iter()
                    .map(|address| (*address, spec.name.as_str()))
            })
            .collect();
        let moves = |(index, slot): (usize, &Option<Slot>)| {
            let spec = &slot.as_ref()?.spec;
            let moves = |address| owners.get(address).is_some_and(|owner| *owner != spec.name);
            let any = spec.addresses.iter().any(moves);
            any.then_some(NodeIndex(index as u32))
        };
        let moving: Vec<NodeIndex> = self.slots.iter().enumerate().filter_map(moves).collect();
        for index in moving {
            self.stop_probing(index);
        }
    }

    fn follow_interest(&mut self, now: Reading, index: NodeIndex) {
        let Some(slot) = self.slot(index) else { return };
        match (slot.monitored, self.consumers.want(&slot.spec.name)) {
            (false, true) => self.begin(now, index),
            (true, false) => self.end(now, index),
            (true, true) | (false, false) => {}
        }
    }

    fn begin(&mut self, now: Reading, index: NodeIndex) {
        let Some(slot) = self.slots[index.0 as usize].as_mut() else {
            return;
        };
        slot.monitored = true;
        let name = slot.spec.name.clone();
        let has_address = !slot.spec.addresses.is_empty();
        if has_address && !self.settings.health.timeout.is_zero() {
            slot.settled = false;
            self.unsettled += 1;
        }
        let record = self.records.remove(&name);
        let mut view = slot.cell.lock();
        match record {
            Some(record) => {
                view.state = record.state;
                view.since = record.since;
                view.incarnation = record.incarnation;
            }
            None => view.since = now.wall,
        }
        drop(view);
        let recorded = record.map(|record| Recorded {
            state: record.state,
            reason: record.reason,
            age: now.wall.duration_since(record.since).unwrap_or_default(),
            incarnation: record.incarnation,
        });
        self.health.begin(now.instant, index, has_address, recorded);
        self.probe(now, index);
        self.publish(now, index);
        if recorded.is_some() {
            self.consumers.tell(&name);
        }
    }

    fn end(&mut self, now: Reading, index: NodeIndex) {
        self.stop_probing(index);
        self.health.end(now.instant, index);
        self.panel.settle(index);
        self.settle(index);
        self.publish(now, index);
        if let Some(slot) = self.slot_mut(index) {
            slot.monitored = false;
            slot.cell.lock().forget(Reason::NotMonitored);
        }
    }

    /// Has a monitored node probed at its present addresses, with its present keys.
    pub(super) fn probe(&mut self, now: Reading, index: NodeIndex) {
        let Some(slot) = self.slot(index) else { return };
        let spec = &slot.spec;
        if self.settings.health.timeout.is_zero() || spec.addresses.is_empty() {
            self.stop_probing(index);
            return;
        }
        let target = Target {
            node: NodeId::of(&spec.name),
            keys: spec.keys.signing_as_held(&slot.held),
            addresses: spec.addresses.clone(),
        };
        let failed = self
            .prober
            .insert(now.instant, target_of(index), target)
            .err();
        self.ask_for_lease(index);
        if let Some(slot) = self.slot(index) {
            let node = slot.spec.name.clone();
            slot.cell.lock().not_probed = failed.map(|error| error.to_string());
            self.notices
                .extend(failed.map(|error| Notice::NotProbed { node, error }));
        }
    }
}

fn show_spec(cell: &Cell, spec: &NodeSpec) {
    let mut view = cell.lock();
    view.set_addresses(&spec.addresses);
    view.labels.clone_from(&spec.labels);
    view.problem.clone_from(&spec.problem);
}
