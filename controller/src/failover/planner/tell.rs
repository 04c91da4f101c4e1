//! Record first, then tell.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use probe_user::egress::{Desired, EgressIp};

use super::Planner;
use super::state::{Address, Node, Stage};
use crate::clock::Reading;
use crate::failover::{Event, Gateway, Output, Phase, Record};

impl Planner {
    /// Claims a term, if there is anything to decide about. All that were or may be told are told
    /// again, by epochs of this term.
    pub(super) fn claim(&mut self) {
        if self.claimed || (self.addresses.is_empty() && !self.dirty) {
            return;
        }
        self.claimed = true;
        self.term += 1;
        let owners = self
            .addresses
            .values()
            .filter_map(|address| address.owner.clone());
        let told = self.nodes.iter().filter(|(_, node)| node.epoch != 0);
        let told = told.map(|(name, _)| name.clone());
        self.stale.extend(owners.chain(told));
    }

    /// Gives new epochs to the nodes whose set changed, and to new candidates: whoever may get an
    /// address is told, be it that it has none.
    pub(super) fn number(&mut self) {
        if !self.claimed {
            return;
        }
        let candidates = self.candidates.values().flatten();
        let earlier = |node: &Node| node.epoch >> 32 != u64::from(self.term);
        let new = |name: &&Arc<str>| self.nodes.get(*name).is_some_and(earlier);
        self.stale.extend(candidates.filter(new).cloned());
        for name in std::mem::take(&mut self.stale) {
            if let Some(node) = self.nodes.get_mut(&name) {
                self.counter += 1;
                node.epoch = u64::from(self.term) << 32 | u64::from(self.counter);
                self.dirty = true;
            }
        }
    }

    /// Has what was decided recorded.
    pub(super) fn record(&mut self, now: Reading) {
        if !self.dirty {
            return;
        }
        self.forget();
        self.dirty = false;
        self.version += 1;
        self.recording = Some(self.version);
        let worth = |(_, address): &(&IpAddr, &Address)| {
            address.owner.is_some() || (address.cause.is_some() && !address.withdrawn)
        };
        let addresses = self.addresses.iter().filter(worth);
        // Names are made once it is known which nodes are worth it: there may be thousands.
        let nodes = || self.nodes.iter();
        let owned = |name: &Arc<str>| (**name).to_owned();
        let record = Record {
            version: self.version,
            term: self.term,
            addresses: addresses
                .map(|(ip, address)| (*ip, address.recorded()))
                .collect(),
            epochs: nodes()
                .filter(|(_, node)| node.epoch != 0)
                .map(|(name, node)| (owned(name), node.epoch))
                .collect(),
            reach: nodes()
                .filter(|(_, node)| node.epoch != 0)
                .map(|(name, node)| (owned(name), node.addresses.clone()))
                .collect(),
            damping: nodes()
                .filter_map(|(name, node)| {
                    let damping = node.damping.recorded(now, &self.settings.damping)?;
                    Some((owned(name), damping))
                })
                .collect(),
            floors: nodes()
                .map(|(name, _)| (name, self.leases.floor(name)))
                .filter(|(_, floor)| *floor != 0)
                .map(|(name, floor)| (owned(name), floor))
                .collect(),
            lease_ms: self.leases.longest().as_millis() as u64,
            rosters: self.recorded_rosters(),
            drained: nodes()
                .filter(|(_, node)| node.drained)
                .map(|(name, _)| owned(name))
                .collect(),
        };
        self.outputs.push_back(Output::Record(record));
    }

    /// Tells everyone what was recorded.
    pub(super) fn tell(&mut self, now: Reading) {
        for (ip, address) in &mut self.addresses {
            let Stage::Arriving(arriving) = &mut address.stage else {
                continue;
            };
            if arriving.phase != Phase::Record {
                continue;
            }
            arriving.enter(now.instant, Phase::Place);
            self.outputs.push_back(Output::Event(Event::Moved {
                gateway: address.gateway.clone(),
                address: *ip,
                from: arriving.from.clone(),
                to: address.owner.clone(),
                cause: arriving.cause,
            }));
            if address.owner.is_none() {
                address.stage = Stage::Settled;
            }
        }
        self.addresses
            .retain(|_, address| !address.withdrawn || address.owner.is_some());
        if self.settings.enabled {
            self.apply();
        }
    }

    fn apply(&mut self) {
        let stale = self
            .nodes
            .iter_mut()
            .filter(|(_, node)| node.told != node.epoch);
        let stale: Vec<Arc<str>> = stale
            .map(|(name, node)| {
                node.told = node.epoch;
                name.clone()
            })
            .collect();
        if stale.is_empty() {
            return;
        }
        let set = |name: Arc<str>| {
            let desired = Desired {
                epoch: self.nodes.get(&name).map_or(0, |node| node.epoch),
                addresses: Vec::new(),
                gateways: Vec::new(),
                lease_ms: self.leases.lease_ms(),
                witnesses: self.leases.witness_set(&name),
            };
            (name, desired)
        };
        let mut sets: BTreeMap<Arc<str>, Desired> = stale.into_iter().map(set).collect();
        for (ip, address) in &self.addresses {
            let set = address.holder().and_then(|holder| sets.get_mut(holder));
            if let Some(set) = set {
                set.addresses.extend(self.egress_ip(*ip, address));
            }
        }
        for (gateway, candidates) in &self.candidates {
            let Some(gateway) = self.gateways.get(gateway).map(Gateway::told) else {
                continue;
            };
            for (_, set) in sets
                .iter_mut()
                .filter(|(name, _)| candidates.contains(*name))
            {
                set.gateways.push(gateway.clone());
            }
        }
        let told = sets.into_iter();
        self.outputs
            .extend(told.map(|(node, desired)| Output::Apply { node, desired }));
    }

    /// What the owner is told of an address; nothing if its gateway is gone, which is a reason to
    /// release it anyway.
    fn egress_ip(&self, ip: IpAddr, address: &Address) -> Option<EgressIp> {
        let gateway = self.gateways.get(&address.gateway);
        gateway.map(|gateway| gateway.egress_ip(ip, address.claim))
    }

    /// Forgets nodes that are not configured, own nothing and have said so.
    fn forget(&mut self) {
        let owners: BTreeSet<Arc<str>> = self
            .addresses
            .values()
            .filter_map(|address| address.owner.clone())
            .collect();
        self.nodes
            .retain(|name, node| !node.is_done() || owners.contains(name));
        let nodes = &self.nodes;
        self.leases.retain(|name| nodes.contains_key(name));
    }
}
