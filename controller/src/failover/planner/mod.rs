//! The planner: what it knows and how it is told. What it concludes is in `decide`, `step` and
//! `revoke`, what it shows in `view`.

mod appoint;
mod decide;
mod lease_view;
mod revoke;
mod seating;
mod state;
mod step;
mod tell;
mod view;
mod warnings;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use probe_user::egress::AddressReport;

use self::state::{Address, Node};
use super::damping::Damping;
use super::guard::Guard;
use super::lease::{Fencing, Leases};
use super::{DampingSettings, Event, Gateway, GuardSettings, Output, Record};
use crate::clock::Reading;
use crate::health::State;

/// By which rules egress IPs are moved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlannerSettings {
    /// Otherwise states are shown, and nothing is placed, moved or told.
    pub enabled: bool,
    /// An address goes back to the node that it was moved away from once that has been AVAILABLE
    /// for so long; `None`: never.
    pub failback: Option<Duration>,
    /// How long unassigned addresses wait for a new candidate's first state: otherwise the first
    /// one to answer would get them all.
    pub settle: Duration,
    /// When the controller suspects itself.
    pub guard: GuardSettings,
    /// When a node is damped.
    pub damping: DampingSettings,
    /// How it is made sure that nobody else uses an address.
    pub fencing: Fencing,
}

/// A node as it is configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeConfig {
    /// By which gateways select it.
    pub labels: BTreeMap<String, String>,
    /// Where its agent is reached.
    pub addresses: Vec<IpAddr>,
}

/// What is known of a node's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// Its state.
    pub state: State,
    /// Since when it is in it.
    pub since: SystemTime,
    /// When it was last heard, by whomever; `None`: it was not.
    pub heard: Option<Instant>,
    /// Others hear it, but the controller does not: it cannot be told anything new.
    pub path_down: bool,
}

/// Decides which node owns which egress IP.
///
/// Everything that is handled is taken in; decisions are made by [`poll`](Self::poll) alone, so
/// the order of what was handled before makes no difference.
#[derive(Debug)]
pub struct Planner {
    settings: PlannerSettings,
    gateways: BTreeMap<String, Gateway>,
    /// By gateway: the nodes that it selects.
    candidates: BTreeMap<String, BTreeSet<Arc<str>>>,
    nodes: BTreeMap<Arc<str>, Node>,
    addresses: BTreeMap<IpAddr, Address>,
    guard: Guard,
    leases: Leases,
    term: u32,
    /// The last epoch given in this term, without the term.
    counter: u32,
    /// Whether this start's term is claimed.
    claimed: bool,
    /// Nodes whose set changed since they were given an epoch.
    stale: BTreeSet<Arc<str>>,
    version: u64,
    /// Something is not recorded yet.
    dirty: bool,
    /// The version that is being recorded.
    recording: Option<u64>,
    outputs: VecDeque<Output>,
    wake: Option<Instant>,
}

impl Planner {
    /// Knows nothing yet.
    pub fn new(settings: PlannerSettings) -> Self {
        Self {
            settings,
            gateways: BTreeMap::new(),
            candidates: BTreeMap::new(),
            nodes: BTreeMap::new(),
            addresses: BTreeMap::new(),
            guard: Guard::default(),
            leases: Leases::new(settings.fencing),
            term: 0,
            counter: 0,
            claimed: false,
            stale: BTreeSet::new(),
            version: 0,
            dirty: false,
            recording: None,
            outputs: VecDeque::new(),
            wake: None,
        }
    }

    /// This controller's term, or until it has claimed one, the last that was recorded.
    pub fn term(&self) -> u32 {
        self.term
    }

    /// Starts from what the last controller recorded, before anything is handled. What it recorded
    /// counts as told.
    pub fn restore(&mut self, now: Reading, record: &Record) {
        (self.term, self.version) = (record.term, record.version);
        let lease = Duration::from_millis(record.lease_ms);
        let fencing = self.settings.fencing;
        self.leases = Leases::restored(now.instant, fencing, lease, &record.rosters);
        for name in record.epochs.keys() {
            let floor = record.floors.get(name).copied().unwrap_or_default();
            self.leases.restore(Arc::from(name.as_str()), floor);
        }
        for name in record.epochs.keys().chain(&record.drained) {
            let node = self.node_entry(now.instant, name);
            node.drained = record.drained.contains(name);
            node.epoch = record.epochs.get(name).copied().unwrap_or_default();
            node.addresses = record.reach.get(name).cloned().unwrap_or_default();
        }
        for (name, recorded) in &record.damping {
            let damping = Damping::restored(now, recorded, &self.settings.damping);
            self.node_entry(now.instant, name).damping = damping;
        }
        for (&address, recorded) in &record.addresses {
            let address_state = Address::restored(now.instant, recorded);
            if let Some(owner) = &recorded.owner {
                self.node_entry(now.instant, owner);
            }
            self.addresses.insert(address, address_state);
        }
    }

    /// Replaces the gateways; they have passed [`check_gateways`](super::check_gateways).
    pub fn handle_gateways(&mut self, now: Reading, gateways: Vec<Gateway>) {
        let mut changed = BTreeSet::new();
        let mut told_anew = BTreeSet::new();
        let mut before = std::mem::take(&mut self.gateways);
        for gateway in gateways {
            for address in gateway.pool.iter() {
                let fresh = || Address::new(&gateway.name, now.wall);
                let known = self.addresses.entry(address).or_insert_with(fresh);
                known.withdrawn = false;
                if known.gateway != gateway.name {
                    known.gateway.clone_from(&gateway.name);
                    changed.insert(address);
                }
            }
            if before
                .remove(&gateway.name)
                .is_none_or(|before| before != gateway)
            {
                changed.extend(gateway.pool.iter());
                told_anew.insert(gateway.name.clone());
            }
            self.gateways.insert(gateway.name.clone(), gateway);
        }
        for (address, known) in &mut self.addresses {
            let gateway = self.gateways.get(&known.gateway);
            known.withdrawn = gateway.is_none_or(|gateway| !gateway.pool.contains(*address));
        }
        self.addresses
            .retain(|_, known| !known.withdrawn || known.owner.is_some());
        let holder = |address: &IpAddr| self.addresses.get(address)?.holder().cloned();
        let holders: BTreeSet<Arc<str>> = changed.iter().filter_map(holder).collect();
        self.stale.extend(holders);
        self.select();
        let candidates = |name: &String| self.candidates.get(name).into_iter().flatten();
        self.stale
            .extend(told_anew.iter().flat_map(candidates).cloned());
    }

    /// Replaces the nodes that are configured, with their labels.
    pub fn handle_nodes(&mut self, now: Reading, nodes: BTreeMap<String, NodeConfig>) {
        for (name, node) in &mut self.nodes {
            node.present = nodes.contains_key(&**name);
        }
        for (name, config) in nodes {
            let node = self.node_entry(now.instant, &name);
            let moved = node.epoch != 0 && node.addresses != config.addresses;
            (node.labels, node.addresses) = (config.labels, config.addresses);
            node.present = true;
            self.dirty |= moved;
        }
        self.fit_leases();
        self.select();
    }

    /// Takes note of a node's health.
    pub fn handle_state(&mut self, now: Reading, node: &str, observation: Observation) {
        let settings = self.settings.damping;
        let Some(known) = self.nodes.get_mut(node) else {
            return;
        };
        known.heard = observation.heard.unwrap_or(known.appeared);
        known.path_down = observation.path_down;
        if known.state == observation.state {
            return;
        }
        // Who was never heard has not fallen.
        let first = known.state == State::Unknown;
        known.state = observation.state;
        // What was so before this controller began counts, too.
        known.changed = match first {
            true => now.instant_at(observation.since).unwrap_or(known.appeared),
            false => now.instant,
        };
        known.fell = None;
        if observation.state != State::Unreachable || first {
            return;
        }
        known.fell = Some(now.instant);
        if self.guard.is_holding() {
            self.leases.witnesses.listen(true);
        }
        let mut candidates = self.candidates.values();
        let counts = self.settings.enabled && settings.count > 0;
        self.dirty |= counts && candidates.any(|names| names.contains(node));
        if known.damping.fall(now.instant, &settings)
            && let Some(hold) = known.damping.hold()
        {
            let node = Arc::from(node);
            self.outputs
                .push_back(Output::Event(Event::Damped { node, hold }));
        }
    }

    /// Takes note of what an agent reports: that of `epoch` took effect, and that witness set.
    pub fn handle_report(
        &mut self,
        now: Reading,
        node: &str,
        epoch: u64,
        witness_version: u64,
        reports: &[AddressReport],
    ) {
        let Some((name, _)) = self.nodes.get_key_value(node) else {
            return;
        };
        let name = name.clone();
        let Some(known) = self.nodes.get_mut(node) else {
            return;
        };
        known.failure = None;
        self.leases.confirm(&name, epoch, now.instant);
        self.leases.witnesses.confirm(&name, witness_version);
        known.confirmed = known.confirmed.max(epoch);
        if epoch != known.told {
            return;
        }
        known.leftovers = reports.iter().map(|report| report.address).collect();
        self.dirty |= known.is_done();
        for report in reports {
            let Some(address) = self.addresses.get_mut(&report.address) else {
                continue;
            };
            if address.holder().is_some_and(|owner| &**owner == node) {
                let routed = self
                    .gateways
                    .get(&address.gateway)
                    .is_some_and(|gateway| gateway.routed);
                let completed = address.handle_report(now.instant, report, routed);
                self.outputs.extend(completed.map(Output::Event));
            }
        }
    }

    /// Takes note that leases are extended as was last said, and, by node, when the newest reply came
    /// by which they had been extended before.
    pub fn handle_renewed(&mut self, echoed: &BTreeMap<String, Instant>) {
        self.leases.handle_renewed(echoed);
    }

    /// Takes note by which devices of a node its egress IPs may leave without a lease, and why.
    pub fn handle_not_fenced(&mut self, node: &str, reasons: &[String]) {
        if let Some(node) = self.nodes.get_mut(node)
            && node.not_fenced != reasons
        {
            node.not_fenced = reasons.to_vec();
        }
    }

    /// Takes note that an agent could not be told.
    pub fn handle_failure(&mut self, node: &str, error: &str) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.failure = Some(error.to_owned());
        }
    }

    /// Takes note that a record is durable: what it says may be told.
    pub fn handle_recorded(&mut self, now: Reading, version: u64) {
        if self.recording == Some(version) {
            self.recording = None;
            if self.claimed {
                self.leases.begin_term(now.instant);
            }
            self.tell(now);
            self.charge(now.instant);
        }
    }

    /// Drains a node on purpose: it gets no address, and gives its own to others as soon as there
    /// are any. Returns the version of the record that will say so; `None`: there is no such node.
    pub fn drain(&mut self, node: &str) -> Option<u64> {
        self.set_drained(node, true)
    }

    /// Ends a drain; see [`drain`](Self::drain).
    pub fn undrain(&mut self, node: &str) -> Option<u64> {
        self.set_drained(node, false)
    }

    fn set_drained(&mut self, node: &str, drained: bool) -> Option<u64> {
        let node = self.nodes.get_mut(node).filter(|node| node.present)?;
        self.dirty |= node.drained != drained;
        node.drained = drained;
        Some(self.version + u64::from(self.dirty))
    }

    /// The version that was recorded last.
    pub fn recorded_version(&self) -> u64 {
        self.version - u64::from(self.recording.is_some())
    }

    /// What is to be done, in order.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`poll`](Self::poll) has something to do, if nothing is handled until then.
    pub fn next_wake(&self) -> Option<Instant> {
        self.wake
    }

    /// The nodes that are candidates or own something: whose state matters.
    pub fn interesting_nodes(&self) -> BTreeSet<String> {
        let owners = self
            .addresses
            .values()
            .filter_map(|address| address.owner.as_ref());
        let candidates = self.candidates.values().flatten();
        candidates
            .chain(owners)
            .map(|name| (**name).to_owned())
            .collect()
    }

    fn node_entry(&mut self, now: Instant, name: &str) -> &mut Node {
        let entry = self.nodes.entry(Arc::from(name));
        entry.or_insert_with(|| Node::new(now))
    }

    /// Finds the candidates anew; whoever became one, or is one no longer, is told.
    fn select(&mut self) {
        let before = std::mem::take(&mut self.candidates);
        for gateway in self.gateways.values() {
            let selected =
                |(_, node): &(&Arc<str>, &Node)| node.present && gateway.selects(&node.labels);
            let selected = self
                .nodes
                .iter()
                .filter(selected)
                .map(|(name, _)| name.clone());
            self.candidates
                .insert(gateway.name.clone(), selected.collect());
        }
        for gateway in before.keys().chain(self.candidates.keys()) {
            let [before, now] = [&before, &self.candidates].map(|all| {
                all.get(gateway)
                    .into_iter()
                    .flatten()
                    .collect::<BTreeSet<_>>()
            });
            let changed = before.symmetric_difference(&now);
            self.stale.extend(changed.map(|name| Arc::clone(name)));
        }
    }
}
