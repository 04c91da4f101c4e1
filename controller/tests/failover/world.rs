//! A planner, agents that do what they are told unless they are kept from it, and a clock.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant, SystemTime};

use controller::clock::Reading;
use controller::failover::{
    DampingSettings, Event, Fencing, Gateway, GuardSettings, NodeConfig, Observation, Output,
    Planner, PlannerSettings, Pool, Record, Renewals,
};
use controller::health::State;
use probe_user::egress::{AddressReport, AddressState, Desired, EgressIp};

use crate::testimonies::Testimonies;

pub(crate) const TIMEOUT: Duration = Duration::from_secs(1);
pub(crate) const SETTINGS: PlannerSettings = PlannerSettings {
    enabled: true,
    failback: None,
    settle: Duration::from_millis(1200),
    guard: GuardSettings {
        max_unreachable: 0.55,
        window: Duration::from_millis(1200),
        silence: Duration::from_millis(750),
    },
    damping: DampingSettings {
        count: 3,
        window: Duration::from_secs(300),
        hold: Duration::from_secs(30),
        hold_max: Duration::from_secs(600),
    },
    fencing: Fencing::None,
};

pub(crate) struct World {
    pub(crate) planner: Planner,
    pub(crate) now: Reading,
    /// What each agent was told last.
    pub(crate) told: BTreeMap<String, Desired>,
    pub(crate) events: Vec<Event>,
    /// The last durable record.
    pub(crate) record: Option<Record>,
    /// Agents that are told and do not answer.
    pub(crate) mute: BTreeSet<String>,
    /// Nodes that others hear, and the controller does not.
    pub(crate) path_down: BTreeSet<String>,
    /// Records are not made durable.
    pub(crate) disk_is_stuck: bool,
    /// What the prober was told of leases last.
    pub(crate) renewals: Option<Renewals>,
    /// By node: when the newest reply came that its lease was extended by.
    pub(crate) echoed: BTreeMap<String, Instant>,
    pub(crate) witnesses: Testimonies,
    nodes: BTreeMap<String, NodeConfig>,
    /// The state of each node, and since when.
    states: BTreeMap<String, (State, SystemTime)>,
}

impl World {
    pub(crate) fn new(settings: PlannerSettings) -> Self {
        let now = Reading {
            instant: Instant::now(),
            wall: SystemTime::UNIX_EPOCH,
        };
        Self {
            planner: Planner::new(settings),
            now,
            told: BTreeMap::new(),
            events: Vec::new(),
            record: None,
            mute: BTreeSet::new(),
            path_down: BTreeSet::new(),
            disk_is_stuck: false,
            renewals: None,
            echoed: BTreeMap::new(),
            witnesses: Testimonies::default(),
            nodes: BTreeMap::new(),
            states: BTreeMap::new(),
        }
    }

    /// Nodes `n1` to `n<nodes>`, all AVAILABLE, and one gateway `gw` with these addresses.
    pub(crate) fn with(settings: PlannerSettings, nodes: usize, pool: &[&str]) -> Self {
        let mut world = Self::new(settings);
        world.set_gateways(vec![gateway("gw", pool)]);
        world.set_nodes((1..=nodes).map(|index| format!("n{index}")));
        for name in world.node_names() {
            world.observe(&name, State::Available);
        }
        world.run();
        world
    }

    pub(crate) fn node_names(&self) -> Vec<String> {
        self.nodes.keys().cloned().collect()
    }

    pub(crate) fn set_gateways(&mut self, gateways: Vec<Gateway>) {
        self.planner.handle_gateways(self.now, gateways);
    }

    /// Nodes with the label that gateways select.
    pub(crate) fn set_nodes(&mut self, names: impl IntoIterator<Item = String>) {
        let node = || NodeConfig {
            labels: BTreeMap::from([("egress".to_owned(), "yes".to_owned())]),
            addresses: vec![ip("10.77.0.1")],
        };
        self.nodes = names.into_iter().map(|name| (name, node())).collect();
        self.planner.handle_nodes(self.now, self.nodes.clone());
    }

    /// Gives the node the label that gateways select, or takes it away.
    pub(crate) fn select(&mut self, node: &str, selected: bool) {
        let labels = &mut self.nodes.get_mut(node).unwrap().labels;
        labels.clear();
        if selected {
            labels.insert("egress".to_owned(), "yes".to_owned());
        }
        self.planner.handle_nodes(self.now, self.nodes.clone());
        self.run();
    }

    /// The node gets into a state; nothing is decided yet.
    pub(crate) fn observe(&mut self, node: &str, state: State) {
        let is_renewed = |renewals: &Renewals| renewals.floors.contains_key(node);
        if state != State::Unreachable {
            self.witnesses.hear(self.now.instant, node);
        }
        if state != State::Unreachable && self.renewals.as_ref().is_some_and(is_renewed) {
            self.echoed.insert(node.to_owned(), self.now.instant);
        }
        let (before, since) = self
            .states
            .entry(node.to_owned())
            .or_insert((state, self.now.wall));
        if *before != state {
            (*before, *since) = (state, self.now.wall);
        }
        let observation = Observation {
            state,
            since: *since,
            heard: (state != State::Unreachable).then_some(self.now.instant),
            path_down: self.path_down.contains(node),
        };
        self.planner.handle_state(self.now, node, observation);
    }

    /// As [`observe`](Self::observe), and all that follows.
    pub(crate) fn set_state(&mut self, node: &str, state: State) {
        self.observe(node, state);
        self.run();
    }

    pub(crate) fn cut(&mut self, node: &str) {
        self.pass(Duration::from_secs(10));
        self.set_state(node, State::Unreachable);
    }

    pub(crate) fn heal(&mut self, node: &str) {
        self.pass(Duration::from_secs(10));
        self.set_state(node, State::Available);
    }

    pub(crate) fn drain(&mut self, node: &str) {
        self.planner.drain(node).unwrap();
        self.run();
    }

    pub(crate) fn undrain(&mut self, node: &str) {
        self.planner.undrain(node).unwrap();
        self.run();
    }

    /// Time passes; nodes that are not UNREACHABLE go on answering.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.now.instant += time;
        self.now.wall += time;
        for (node, (state, _)) in self.states.clone() {
            if state != State::Unreachable {
                self.observe(&node, state);
            }
        }
        self.run();
    }

    /// Decides, records, tells and reports until nothing more follows.
    pub(crate) fn run(&mut self) {
        loop {
            self.planner.poll(self.now);
            let mut idle = true;
            while let Some(output) = self.planner.poll_output() {
                if matches!(output, Output::Record(_)) && self.disk_is_stuck {
                    return;
                }
                self.act(output);
                idle = false;
            }
            if idle {
                return;
            }
        }
    }

    fn act(&mut self, output: Output) {
        match output {
            Output::Record(record) => {
                let version = record.version;
                self.record = Some(record);
                self.planner.handle_recorded(self.now, version);
            }
            Output::Apply { node, desired } => {
                let told = self.told.entry(node.to_string()).or_default();
                let epoch = desired.epoch;
                assert!(epoch > told.epoch, "{node}: {epoch} after {}", told.epoch);
                *told = desired;
                self.confirm(&node);
            }
            Output::Renew(renewals) => {
                self.planner.handle_renewed(&self.echoed);
                self.renewals = Some(renewals);
            }
            Output::Witness { node, duty } => {
                self.witnesses.tell(&node, duty);
                self.testify(&node);
            }
            Output::Event(event) => self.events.push(event),
        }
    }

    /// The node's agent reports what it was told last, if it is heard.
    pub(crate) fn confirm(&mut self, node: &str) {
        let state = self.states.get(node).map(|(state, _)| *state);
        let heard = state == Some(State::Available);
        let Some(told) = self
            .told
            .get(node)
            .filter(|_| heard && !self.mute.contains(node))
        else {
            return;
        };
        let report = |ip: &EgressIp| AddressReport {
            address: ip.address,
            state: AddressState::Announced,
        };
        let reports: Vec<AddressReport> = told.addresses.iter().map(report).collect();
        let version = told.witnesses.as_ref().map_or(0, |set| set.version);
        self.planner
            .handle_report(self.now, node, told.epoch, version, &reports);
    }

    /// The node's agent answers what its duty as a witness is, if it is heard.
    pub(crate) fn testify(&mut self, node: &str) {
        let state = self.states.get(node).map(|(state, _)| *state);
        if state != Some(State::Available) || self.mute.contains(node) {
            return;
        }
        if let Some((version, report)) = self.witnesses.report(self.now.instant, node) {
            let now = self.now.instant;
            self.planner.handle_testimony(now, node, version, &report);
        }
    }

    /// Everyone who is a witness answers again.
    pub(crate) fn testify_all(&mut self) {
        for node in self.witnesses.told() {
            self.testify(&node);
        }
        self.run();
    }

    /// A new controller starts from the last durable record, and finds the nodes as they are.
    pub(crate) fn restart(&mut self, settings: PlannerSettings, gateways: Vec<Gateway>) {
        self.planner = Planner::new(settings);
        self.witnesses.forget_controller();
        if let Some(record) = &self.record {
            self.planner.restore(self.now, record);
        }
        self.set_gateways(gateways);
        self.planner.handle_nodes(self.now, self.nodes.clone());
        for (node, (state, _)) in self.states.clone() {
            self.observe(&node, state);
        }
        self.run();
    }

    /// The node is not configured any more; no controller is there to see it.
    pub(crate) fn delete_unseen(&mut self, node: &str) {
        self.nodes.remove(node);
    }

    /// By address: its owner, as the interface shows it.
    pub(crate) fn owners(&self) -> BTreeMap<IpAddr, Option<String>> {
        let view = self.planner.view(self.now.instant);
        let addresses = view
            .gateways
            .into_iter()
            .flat_map(|gateway| gateway.addresses);
        addresses
            .map(|address| (address.address, address.owner))
            .collect()
    }

    /// The owner of the only address.
    pub(crate) fn owner(&self) -> Option<String> {
        let owners = self.owners();
        assert_eq!(owners.len(), 1);
        owners.into_values().next().flatten()
    }

    /// How many addresses have an owner.
    pub(crate) fn assigned(&self) -> usize {
        self.owners().values().flatten().count()
    }

    pub(crate) fn explain(&self, subject: &str) -> String {
        self.planner
            .explain(self.now.instant, subject)
            .unwrap()
            .sentences
            .join(" ")
    }

    /// Addresses that left an owner, and why.
    pub(crate) fn moves(&self) -> Vec<(String, controller::failover::Cause)> {
        let left = |event: &Event| match event {
            Event::Moved {
                address,
                cause: Some(cause),
                ..
            } => Some((address.to_string(), *cause)),
            _ => None,
        };
        self.events.iter().filter_map(left).collect()
    }
}

/// A gateway whose candidates are the nodes with the label.
pub(crate) fn gateway(name: &str, pool: &[&str]) -> Gateway {
    Gateway {
        name: name.to_owned(),
        selector: BTreeMap::from([("egress".to_owned(), "yes".to_owned())]).into(),
        pool: Pool::parse(pool).unwrap(),
        defaults: Vec::new(),
        cluster_default: false,
        sources: Vec::new(),
        except: Vec::new(),
        interface: None,
        routed: false,
        max_per_node: None,
    }
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}
