//! A network of addresses that answer or do not, and a clock that the test moves.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use controller::consumers::{Consumer, Consumers, Interest};
use controller::health::{HealthSettings, State};
use controller::monitor::{
    Ask, Board, Monitor, MonitorSettings, NodeSpec, NodeView, Notice, Outlets, Reading, Record,
    Sign, Testimony,
};
use probe_ebpf::wire::ntp::NtpTime;
use probe_ebpf::wire::probe::{AGENT_UP, Answer, LEASE_HELD, NEVER, ProbePacket};
use probe_user::keys::{ClusterKeys, NodeKey};
use probe_user::session::{ProbeSettings, SocketStats, Transmit};
use prometheus_client::metrics::histogram::Histogram;

pub(crate) const PERIOD: Duration = Duration::from_millis(200);
pub(crate) const TIMEOUT: Duration = Duration::from_secs(1);
pub(crate) const ROUND_TRIP: Duration = Duration::from_micros(100);
const PORT: u16 = 862;

pub(crate) const SETTINGS: MonitorSettings = MonitorSettings {
    probe: ProbeSettings {
        period: PERIOD,
        reply_window: TIMEOUT,
        port: PORT,
    },
    health: HealthSettings {
        timeout: TIMEOUT,
        unavailable_timeout: Duration::ZERO,
        announce_after: Duration::from_secs(5),
    },
    ask: true,
};

/// How an address answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Behaviour {
    pub(crate) agent_up: bool,
    pub(crate) incarnation: u64,
    /// What is left of its lease, ms; 0: it holds none.
    pub(crate) lease_ms: u32,
}

pub(crate) const HEALTHY: Behaviour = Behaviour {
    agent_up: true,
    incarnation: 1,
    lease_ms: 0,
};
pub(crate) const AGENTLESS: Behaviour = Behaviour {
    agent_up: false,
    incarnation: 1,
    lease_ms: 0,
};

pub(crate) struct World {
    pub(crate) monitor: Monitor,
    pub(crate) consumers: Consumers,
    pub(crate) board: Arc<Board>,
    /// Those that are not here do not answer.
    pub(crate) network: HashMap<IpAddr, Behaviour>,
    /// Nodes that others hear, and whether their leases are held then.
    pub(crate) heard_by_others: HashMap<String, bool>,
    /// Nodes from whose tunnels others have just received a packet when they are asked.
    pub(crate) busy_tunnels: BTreeSet<String>,
    /// What was asked.
    pub(crate) asks: Vec<Ask>,
    pub(crate) now: Reading,
    pub(crate) keys: ClusterKeys,
    /// With which keys the nodes answer; the others have the cluster's.
    pub(crate) held: HashMap<String, Vec<NodeKey>>,
    /// Who has what address, so that it answers with the right key.
    owners: HashMap<IpAddr, String>,
    probed: BTreeSet<IpAddr>,
    booted: Instant,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(SETTINGS, HashMap::new())
    }

    pub(crate) fn with(settings: MonitorSettings, records: HashMap<String, Record>) -> Self {
        let board = Arc::new(Board::default());
        let consumers = Consumers::new(board.clone(), || {});
        let outlets = Outlets {
            board: board.clone(),
            consumers: consumers.clone(),
            round_trips: Histogram::new([0.001]),
        };
        let monitor = Monitor::new(settings, 1, records, outlets);
        let now = Reading::take();
        Self {
            monitor,
            consumers,
            board,
            network: HashMap::new(),
            heard_by_others: HashMap::new(),
            busy_tunnels: BTreeSet::new(),
            asks: Vec::new(),
            now,
            keys: ClusterKeys::generate(1).expect("random bytes"),
            held: HashMap::new(),
            owners: HashMap::new(),
            probed: BTreeSet::new(),
            booted: now.instant,
        }
    }

    /// One consumer of everything, and these nodes; addresses of which the first answers.
    pub(crate) fn watching(nodes: &[(&str, &[&str])]) -> (Self, Consumer) {
        let mut world = Self::new();
        let consumer = world.consumers.register("test");
        consumer.set_interest(Interest::All);
        world.configure(nodes);
        (world, consumer)
    }

    pub(crate) fn spec(&self, name: &str, addresses: &[&str]) -> NodeSpec {
        NodeSpec {
            name: name.to_owned(),
            addresses: addresses.iter().map(|address| ip(address)).collect(),
            labels: BTreeMap::new(),
            keys: self.keys.node_keys(name),
            problem: None,
        }
    }

    pub(crate) fn configure(&mut self, nodes: &[(&str, &[&str])]) {
        let specs = nodes
            .iter()
            .map(|(name, addresses)| self.spec(name, addresses))
            .collect();
        self.apply(specs);
    }

    pub(crate) fn apply(&mut self, specs: Vec<NodeSpec>) {
        self.owners.clear();
        for spec in &specs {
            self.owners
                .extend(spec.addresses.iter().map(|a| (*a, spec.name.clone())));
        }
        self.monitor.apply(self.now, specs);
    }

    pub(crate) fn answer_as(&mut self, address: &str, behaviour: Behaviour) {
        self.network.insert(ip(address), behaviour);
    }

    pub(crate) fn cut(&mut self, address: &str) {
        self.network.remove(&ip(address));
    }

    /// Lets time pass and everything happen that happens then. Returns who was probed.
    pub(crate) fn run(&mut self, time: Duration) -> BTreeSet<IpAddr> {
        self.probed.clear();
        self.monitor.handle_interest(self.now);
        let end = self.now.instant + time;
        while let Some(wake) = self
            .monitor
            .prober()
            .next_wake()
            .filter(|wake| *wake <= end)
        {
            self.pass_until(wake);
            self.monitor.prober().poll(self.now.instant);
            let at = self.now.instant;
            let sent: Vec<_> =
                std::iter::from_fn(|| self.monitor.prober().poll_transmit(at)).collect();
            for transmit in sent {
                self.deliver(&transmit);
            }
            self.monitor.digest(self.now, &SocketStats::default());
            self.answer_asks();
        }
        self.pass_until(end);
        std::mem::take(&mut self.probed)
    }

    fn pass_until(&mut self, instant: Instant) {
        let time = instant.saturating_duration_since(self.now.instant);
        self.now.instant += time;
        self.now.wall += time;
    }

    fn deliver(&mut self, transmit: &Transmit) {
        let address = transmit.to.ip();
        self.probed.insert(address);
        let Some(behaviour) = self.network.get(&address) else {
            return;
        };
        let owner = self
            .owners
            .get(&address)
            .expect("only configured addresses are probed");
        let time = NtpTime::from_unix_nanos(0);
        let answer = Answer {
            received: time,
            sent: time,
            error_estimate: 1,
            ttl: 64,
            flags: flag(behaviour.agent_up, AGENT_UP) | flag(behaviour.lease_ms != 0, LEASE_HELD),
            lease_ms: behaviour.lease_ms,
            epoch: 0,
            incarnation: behaviour.incarnation,
            node_time: (self.now.instant - self.booted).as_nanos() as u64 + 1,
            beat_age_ms: 5,
            tunnel_age_ms: NEVER,
        };
        let mut packet = ProbePacket::from_bytes(&transmit.payload);
        let Some(key) = self.key(owner, packet.key_id()) else {
            return;
        };
        packet.answer(&answer, &key.sip());
        let received = self.now.instant + ROUND_TRIP;
        let source = SocketAddr::new(address, PORT);
        self.monitor
            .prober()
            .handle_datagram(received, source, &packet.to_bytes());
    }

    /// The key with this id, if the node has it.
    fn key(&self, node: &str, id: u16) -> Option<NodeKey> {
        let all = || self.keys.node_keys(node).all().to_vec();
        let held = self.held.get(node).cloned().unwrap_or_else(all);
        held.into_iter().find(|key| key.id == id)
    }

    /// Those who are asked answer at once.
    fn answer_asks(&mut self) {
        while let Some(ask) = self.monitor.poll_ask() {
            let heard = self.heard_by_others.get(&ask.node);
            let heard = heard.map(|&lease_held| Sign::Reply { lease_held });
            let busy = self.busy_tunnels.contains(&ask.node);
            for sign in heard.into_iter().chain(busy.then_some(Sign::TunnelPacket)) {
                let testimony = Testimony {
                    witness: ask.witness.clone(),
                    node: ask.node.clone(),
                    at: self.now.instant,
                    sign,
                };
                self.monitor.handle_testimony(self.now, &testimony);
            }
            self.asks.push(ask);
        }
    }

    pub(crate) fn state(&self, node: &str) -> State {
        self.board.state(node)
    }

    pub(crate) fn view(&self, node: &str) -> NodeView {
        self.board.node(node).expect("a configured node")
    }

    pub(crate) fn notices(&mut self) -> Vec<Notice> {
        std::iter::from_fn(|| self.monitor.poll_notice()).collect()
    }
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

pub(crate) fn ips(texts: &[&str]) -> BTreeSet<IpAddr> {
    texts.iter().map(|text| ip(text)).collect()
}

pub(crate) fn record(state: State, now: SystemTime) -> Record {
    Record {
        state,
        reason: controller::health::Reason::AgentSilent,
        since: now - Duration::from_secs(3600),
        incarnation: Some(1),
    }
}

const fn flag(is_set: bool, flag: u8) -> u8 {
    if is_set { flag } else { 0 }
}
