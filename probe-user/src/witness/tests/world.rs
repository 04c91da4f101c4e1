//! A witness, its memory, a clock, and nodes that answer as the reflector does.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use probe_ebpf::wire::NodeId;
use probe_ebpf::wire::ntp::NtpTime;
use probe_ebpf::wire::probe::{AGENT_UP, Answer, LEASE_HELD, NEVER, ProbePacket, VOTE};

use crate::channel::{Duty, Heard, Question, Watched};
use crate::keys::ClusterKeys;
use crate::session::Transmit;
use crate::witness::{DutyError, Memory, Outcome, Witness};

pub(super) const MS: Duration = Duration::from_millis(1);
pub(super) const PERIOD: Duration = Duration::from_millis(100);
const STEP: Duration = Duration::from_millis(5);
pub(super) const LEASE: Duration = Duration::from_millis(700);
pub(super) const INSTANCE: u64 = 0xa1;
pub(super) const PORT: u16 = 862;

/// What a process leaves to the next one.
#[derive(Clone, Default)]
pub(super) struct Floors {
    stored: Arc<Mutex<BTreeMap<u64, u64>>>,
    is_new: bool,
    pub(super) is_full: bool,
}

impl Memory for Floors {
    fn instance(&self) -> u64 {
        INSTANCE
    }

    fn is_new(&self) -> bool {
        self.is_new
    }

    fn floor(&self, node: NodeId) -> u64 {
        self.stored
            .lock()
            .unwrap()
            .get(&node.0)
            .copied()
            .unwrap_or(0)
    }

    fn raise(&mut self, node: NodeId, floor: u64) -> Outcome<()> {
        if self.is_full {
            return Err("no room".into());
        }
        let mut stored = self.stored.lock().unwrap();
        let present = stored.entry(node.0).or_insert(0);
        *present = floor.max(*present);
        Ok(())
    }
}

/// A vote, as it left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Vote {
    pub(super) floor: u64,
    pub(super) lease_ms: u32,
    pub(super) instance: u64,
    /// When the reply arrived that it echoes.
    pub(super) echoed: Instant,
}

pub(super) struct World {
    pub(super) now: Instant,
    pub(super) witness: Witness,
    pub(super) floors: Floors,
    cluster: ClusterKeys,
    /// By the nodes' boot clock: when that reply arrived here.
    arrivals: BTreeMap<u64, Instant>,
    version: u64,
}

impl World {
    /// A witness that has never been one before.
    pub(super) fn new() -> Self {
        let floors = Floors {
            is_new: true,
            ..Floors::default()
        };
        let now = Instant::now() + Duration::from_secs(1000);
        Self {
            now,
            witness: witness(now, &floors),
            floors,
            cluster: ClusterKeys::generate(1).unwrap(),
            arrivals: BTreeMap::new(),
            version: 0,
        }
    }

    /// Another process takes over from this one.
    pub(super) fn restart(&mut self) {
        self.floors.is_new = false;
        let duty = self.witness.duty().cloned();
        self.witness = witness(self.now, &self.floors);
        if let Some(duty) = duty {
            self.witness.take_on(self.now, &duty).unwrap();
        }
    }

    /// Node `n<id>` at 10.77.0.<id>.
    pub(super) fn watched(&self, id: u8, floor: u64) -> Watched {
        Watched {
            keys: self.cluster.node_keys(&format!("n{id}")),
            addresses: vec![[10, 77, 0, id].into()],
            floor,
            vote: true,
        }
    }

    pub(super) fn duty(&mut self, watched: Vec<Watched>) -> Duty {
        self.version += 1;
        Duty {
            version: self.version,
            instance: Some(INSTANCE),
            watched,
            period: PERIOD,
            lease: LEASE,
            port: PORT,
        }
    }

    pub(super) fn try_watch(&mut self, watched: Vec<Watched>) -> Result<(), DutyError> {
        let duty = self.duty(watched);
        self.witness.take_on(self.now, &duty)
    }

    pub(super) fn watch(&mut self, watched: Vec<Watched>) {
        self.try_watch(watched).unwrap();
    }

    pub(super) fn question(&self, id: u8, wait: Duration) -> Question {
        Question {
            watched: self.watched(id, 7),
            wait,
            max_age: PERIOD,
            port: PORT,
        }
    }

    /// Lets time pass, little by little so that no round comes too late, and takes what is sent.
    pub(super) fn advance(&mut self, time: Duration) -> Vec<Transmit> {
        let until = self.now + time;
        let mut sent = Vec::new();
        while self.now < until {
            sent.extend(self.step(STEP.min(until - self.now)));
        }
        sent
    }

    fn step(&mut self, time: Duration) -> Vec<Transmit> {
        self.now += time;
        self.witness.prober().poll(self.now);
        let sent = self.sent();
        self.witness.digest(self.now);
        sent
    }

    pub(super) fn sent(&mut self) -> Vec<Transmit> {
        let now = self.now;
        std::iter::from_fn(|| self.witness.prober().poll_transmit(now)).collect()
    }

    /// Lets a period pass, and says at whose addresses probes went.
    pub(super) fn probed(&mut self) -> Vec<u8> {
        let sent = self.advance(PERIOD);
        let mut probed: Vec<u8> = sent.iter().map(host).collect();
        probed.sort_unstable();
        probed.dedup();
        probed
    }

    /// Lets a period pass in which every probe is answered at once. Returns the votes.
    pub(super) fn round(&mut self) -> Vec<Vote> {
        let mut votes = Vec::new();
        let until = self.now + PERIOD;
        while self.now < until {
            for probe in self.step(STEP) {
                votes.extend(self.vote(&probe));
                self.answer(&probe);
            }
        }
        votes
    }

    /// The node answers, and has its lease.
    pub(super) fn answer(&mut self, probe: &Transmit) {
        let node_time = self.arrivals.len() as u64 + 1;
        self.arrivals.insert(node_time, self.now);
        let mut packet = ProbePacket::from_bytes(&probe.payload);
        let keys = self.cluster.node_keys(&format!("n{}", node(probe)));
        let answer = Answer {
            received: NtpTime::default(),
            sent: NtpTime::default(),
            error_estimate: 1,
            ttl: 64,
            flags: AGENT_UP | LEASE_HELD,
            lease_ms: 0,
            epoch: 0,
            incarnation: 77,
            node_time,
            beat_age_ms: 1,
            tunnel_age_ms: NEVER,
        };
        packet.answer(&answer, &keys.current().sip());
        let prober = self.witness.prober();
        prober.handle_datagram(self.now, probe.to, &packet.to_bytes());
        self.witness.digest(self.now);
    }

    /// The vote that a probe is.
    pub(super) fn vote(&self, probe: &Transmit) -> Option<Vote> {
        let packet = ProbePacket::from_bytes(&probe.payload);
        (packet.flags() == VOTE).then(|| Vote {
            floor: packet.epoch(),
            lease_ms: packet.lease_ms(),
            instance: packet.prober(),
            echoed: self.arrivals[&packet.node_time()],
        })
    }

    /// What is reported of node `n<id>`.
    pub(super) fn heard(&self, id: u8) -> Option<Heard> {
        let report = self.witness.report(self.now).unwrap();
        let node = format!("n{id}");
        report.heard.into_iter().find(|heard| heard.node == node)
    }
}

/// Which node a probe goes to, by its address.
pub(super) fn host(probe: &Transmit) -> u8 {
    match probe.to.ip() {
        IpAddr::V4(address) => address.octets()[3],
        IpAddr::V6(address) => panic!("no node has {address}"),
    }
}

/// Which node a probe is meant for.
pub(super) fn node(probe: &Transmit) -> u8 {
    let meant = ProbePacket::from_bytes(&probe.payload).node_id();
    let is_meant = |id: &u8| NodeId::of(&format!("n{id}")) == meant;
    (1..9).find(is_meant).unwrap()
}

fn witness(now: Instant, floors: &Floors) -> Witness {
    let memory = Box::new(floors.clone());
    Witness::new(now, NodeId::of("n9"), Some(memory), 1)
}
