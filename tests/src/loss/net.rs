//! A controller, other nodes' agents, and one node that is watched by all of them, on a network that
//! loses packets.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use controller::consumers::{Consumer, Consumers, Interest};
use controller::health::State;
use controller::monitor::{
    Ask, Board, Monitor, MonitorSettings, NodeSpec, Outlets, Reading, Testimony,
};
use probe_ebpf::wire::ntp::NtpTime;
use probe_ebpf::wire::probe::{AGENT_UP, Answer, LEASE_HELD, NEVER, ProbePacket};
use probe_user::channel::Watched;
use probe_user::keys::ClusterKeys;
use probe_user::session::{SocketStats, Transmit};
use prometheus_client::metrics::histogram::Histogram;

use super::SETTINGS;
use super::chance::Chance;
use super::witness::Agent;

/// From one node to any other.
const WAY: Duration = Duration::from_micros(100);
/// TCP's first timeout.
const RETRANSMIT: Duration = Duration::from_millis(200);
/// Nodes beside the one that is watched; the witnesses among them.
const OTHERS: usize = 7;
const WITNESSES: usize = 5;
/// The node that is watched.
pub(super) const SUBJECT: &str = "n0";

/// Who probes, asks or answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Controller,
    Other(usize),
}

/// What arrives.
enum Parcel {
    Reply(Place, SocketAddr, Vec<u8>),
    Question(usize, Instant, Ask),
    Testimony(Testimony),
}

pub(super) struct Net {
    pub(super) now: Reading,
    start: Instant,
    monitor: Monitor,
    board: Arc<Board>,
    others: Vec<Agent>,
    keys: ClusterKeys,
    pub(super) chance: Chance,
    /// What is on its way, by when it arrives and by number.
    arrivals: BinaryHeap<Reverse<(Instant, u64)>>,
    parcels: HashMap<u64, Parcel>,
    sent: u64,
    /// How many more of the controller's probes to the subject are unanswered; then all are answered.
    pub(super) unanswered: u64,
    _consumer: Consumer,
}

impl Net {
    pub(super) fn new(seed: u64, chance: Chance, ask: bool) -> Self {
        let settings = MonitorSettings { ask, ..SETTINGS };
        let board = Arc::new(Board::default());
        let consumers = Consumers::new(board.clone(), || {});
        let outlets = Outlets {
            board: board.clone(),
            consumers: consumers.clone(),
            round_trips: Histogram::new([0.001]),
        };
        let mut monitor = Monitor::new(settings, seed, HashMap::new(), outlets);
        let consumer = consumers.register("test");
        consumer.set_interest(Interest::All);
        let keys = ClusterKeys::generate(1).unwrap();
        let now = Reading::take();
        let name = |index: usize| format!("n{index}");
        let spec = |index: usize| NodeSpec {
            name: name(index),
            addresses: vec![address(index)],
            labels: Default::default(),
            keys: keys.node_keys(&name(index)),
            problem: None,
        };
        monitor.apply(now, (0..=OTHERS).map(spec).collect());
        let agent = |index: usize| {
            let watched = Watched {
                keys: keys.node_keys(SUBJECT),
                addresses: vec![address(0)],
                floor: 0,
                vote: true,
            };
            let watched = (index < WITNESSES).then_some(watched);
            Agent::new(now.instant, &name(index + 1), seed + index as u64, watched)
        };
        Self {
            now,
            start: now.instant,
            monitor,
            board,
            others: (0..OTHERS).map(agent).collect(),
            keys,
            chance,
            arrivals: BinaryHeap::new(),
            parcels: HashMap::new(),
            sent: 0,
            unanswered: 0,
            _consumer: consumer,
        }
    }

    pub(super) fn state(&self) -> State {
        self.board.state(SUBJECT)
    }

    /// Runs until `done`, and at most for `limit`.
    pub(super) fn run(&mut self, limit: Duration, mut done: impl FnMut(&Self) -> bool) {
        let end = self.now.instant + limit;
        while !done(self) {
            let next = self.next_event();
            if next > end {
                self.pass_until(end);
                return;
            }
            self.pass_until(next);
            self.deliver_due();
            self.run_controller();
            (0..OTHERS).for_each(|index| self.run_other(index));
        }
    }

    fn next_event(&mut self) -> Instant {
        let wakes = self.others.iter().filter_map(|it| it.witness.next_wake());
        let wakes = wakes.chain(self.monitor.prober().next_wake());
        let arrival = self.arrivals.peek().map(|Reverse((at, _))| *at);
        wakes.chain(arrival).min().unwrap().max(self.now.instant)
    }

    fn pass_until(&mut self, instant: Instant) {
        let time = instant.saturating_duration_since(self.now.instant);
        self.now.instant += time;
        self.now.wall += time;
    }

    fn run_controller(&mut self) {
        let now = self.now.instant;
        self.monitor.prober().poll(now);
        while let Some(transmit) = self.monitor.prober().poll_transmit(now) {
            let lost = self.is_lost_to_controller(&transmit);
            self.probe(Place::Controller, &transmit, lost);
        }
        self.monitor.digest(self.now, &SocketStats::default());
        while let Some(ask) = self.monitor.poll_ask() {
            let witness: usize = ask.witness[1..].parse().unwrap();
            let late = RETRANSMIT * self.chance.retransmissions();
            self.send(WAY + late, Parcel::Question(witness - 1, now, ask));
        }
    }

    fn is_lost_to_controller(&mut self, transmit: &Transmit) -> bool {
        if transmit.to.ip() != address(0) {
            return self.chance.is_lost() || self.chance.is_lost();
        }
        let lost = self.unanswered > 0;
        self.unanswered = self.unanswered.saturating_sub(1);
        lost
    }

    fn run_other(&mut self, index: usize) {
        let now = self.now.instant;
        let prober = self.others[index].witness.prober();
        prober.poll(now);
        let sent: Vec<_> = std::iter::from_fn(|| prober.poll_transmit(now)).collect();
        for transmit in sent {
            let lost = self.chance.is_lost() || self.chance.is_lost();
            self.probe(Place::Other(index), &transmit, lost);
        }
        for (deadline, testimony) in self.others[index].answers(now) {
            let late = RETRANSMIT * self.chance.retransmissions();
            if now + WAY + late <= deadline {
                self.send(WAY + late, Parcel::Testimony(testimony));
            }
        }
    }

    /// The node that is probed answers, unless the probe or the answer is lost.
    fn probe(&mut self, from: Place, transmit: &Transmit, lost: bool) {
        if lost {
            return;
        }
        let IpAddr::V4(ip) = transmit.to.ip() else {
            return;
        };
        let name = format!("n{}", ip.octets()[3]);
        let time = NtpTime::from_unix_nanos(0);
        let answer = Answer {
            received: time,
            sent: time,
            error_estimate: 1,
            ttl: 64,
            flags: AGENT_UP | LEASE_HELD,
            lease_ms: 1000,
            epoch: 1,
            incarnation: 1,
            node_time: (self.now.instant - self.start).as_nanos() as u64 + 1,
            beat_age_ms: 5,
            tunnel_age_ms: NEVER,
        };
        let mut packet = ProbePacket::from_bytes(&transmit.payload);
        packet.answer(&answer, &self.keys.node_keys(&name).current().sip());
        let bytes = packet.to_bytes().to_vec();
        self.send(2 * WAY, Parcel::Reply(from, transmit.to, bytes));
    }

    fn send(&mut self, after: Duration, parcel: Parcel) {
        self.sent += 1;
        self.parcels.insert(self.sent, parcel);
        self.arrivals
            .push(Reverse((self.now.instant + after, self.sent)));
    }

    fn deliver_due(&mut self) {
        let now = self.now.instant;
        while let Some(Reverse((at, number))) = self.arrivals.peek().copied()
            && at <= now
        {
            self.arrivals.pop();
            match self.parcels.remove(&number).unwrap() {
                Parcel::Reply(Place::Controller, from, bytes) => {
                    self.monitor.prober().handle_datagram(now, from, &bytes);
                }
                Parcel::Reply(Place::Other(index), from, bytes) => {
                    let prober = self.others[index].witness.prober();
                    prober.handle_datagram(now, from, &bytes);
                }
                Parcel::Question(index, asked, ask) => self.others[index].ask(now, asked, ask),
                Parcel::Testimony(testimony) => {
                    self.monitor.handle_testimony(self.now, &testimony);
                }
            }
        }
    }
}

fn address(index: usize) -> IpAddr {
    IpAddr::from([10, 0, 0, index as u8])
}
