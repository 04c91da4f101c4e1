//! A prober, a clock, and nodes that answer as the reflector does.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use probe_ebpf::siphash::SipKey;
use probe_ebpf::wire::NodeId;
use probe_ebpf::wire::ntp::NtpTime;
use probe_ebpf::wire::probe::{AGENT_UP, Answer, NEVER, ProbePacket};

use crate::keys::{ClusterKeys, NodeKeys};
use crate::session::{
    Event, ProbeSettings, Prober, ProberStats, Target, TargetError, TargetId, Transmit,
};

pub(super) const MS: Duration = Duration::from_millis(1);
pub(super) const PERIOD: Duration = Duration::from_millis(100);
pub(super) const WINDOW: Duration = Duration::from_millis(250);
const PORT: u16 = 862;
const INCARNATION: u64 = 77;

/// A reply on its way: it may arrive any number of times, at any time, or never.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    pub(super) source: SocketAddr,
    pub(super) payload: Vec<u8>,
    pub(super) node_time: u64,
}

pub(super) struct World {
    pub(super) start: Instant,
    pub(super) now: Instant,
    pub(super) prober: Prober,
    cluster: ClusterKeys,
    keys: HashMap<TargetId, SipKey>,
    /// The nodes' boot clock.
    pub(super) node_time: u64,
    pub(super) incarnation: u64,
}

impl World {
    pub(super) fn new() -> Self {
        let start = Instant::now();
        let settings = ProbeSettings {
            period: PERIOD,
            reply_window: WINDOW,
            port: PORT,
        };
        Self {
            start,
            now: start,
            prober: Prober::new(settings, 1),
            cluster: ClusterKeys::generate(1).unwrap(),
            keys: HashMap::new(),
            node_time: 1,
            incarnation: INCARNATION,
        }
    }

    pub(super) fn node_keys(&self, id: u32) -> NodeKeys {
        self.cluster.node_keys(&format!("n{id}"))
    }

    pub(super) fn try_insert(&mut self, id: u32, addresses: &[&str]) -> Result<(), TargetError> {
        let keys = self.node_keys(id);
        let target = Target {
            node: NodeId::of(keys.node()),
            keys,
            addresses: addresses
                .iter()
                .map(|address| address.parse().unwrap())
                .collect(),
        };
        let key = target.keys.current().sip();
        self.prober.insert(self.now, TargetId(id), target)?;
        self.keys.insert(TargetId(id), key);
        Ok(())
    }

    pub(super) fn insert(&mut self, id: u32, addresses: &[&str]) {
        self.try_insert(id, addresses).unwrap();
    }

    /// Lets time pass, begins what is due, and takes the probes.
    pub(super) fn advance(&mut self, time: Duration) -> Vec<Transmit> {
        self.now += time;
        self.prober.poll(self.now);
        std::iter::from_fn(|| self.prober.poll_transmit(self.now)).collect()
    }

    /// Lets time pass until a round begins, and takes its probes.
    pub(super) fn next_round(&mut self) -> Vec<Transmit> {
        let due = self.prober.next_wake().unwrap();
        self.advance(due.saturating_duration_since(self.now))
    }

    /// What the node sends back, with its clock a little later each time.
    pub(super) fn reply(&mut self, probe: &Transmit) -> Flight {
        self.reply_signed(probe, &self.keys[&probe.target].clone())
    }

    pub(super) fn reply_signed(&mut self, probe: &Transmit, key: &SipKey) -> Flight {
        self.node_time += 1;
        let mut packet = ProbePacket::from_bytes(&probe.payload);
        packet.answer(&self.answer(), key);
        Flight {
            source: probe.to,
            payload: packet.to_bytes().to_vec(),
            node_time: self.node_time,
        }
    }

    fn answer(&self) -> Answer {
        Answer {
            received: NtpTime::default(),
            sent: NtpTime::default(),
            error_estimate: 1,
            ttl: 64,
            flags: AGENT_UP,
            lease_ms: 0,
            epoch: 0,
            incarnation: self.incarnation,
            node_time: self.node_time,
            beat_age_ms: 1,
            tunnel_age_ms: NEVER,
        }
    }

    pub(super) fn deliver(&mut self, flight: &Flight) {
        self.prober
            .handle_datagram(self.now, flight.source, &flight.payload);
    }

    pub(super) fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.prober.poll_event()).collect()
    }

    /// The addresses whose replies were events.
    pub(super) fn answered(&mut self) -> Vec<IpAddr> {
        let from = |event| match event {
            Event::Reply { from, .. } => Some(from),
            _ => None,
        };
        self.events().into_iter().filter_map(from).collect()
    }

    pub(super) fn stats(&self) -> ProberStats {
        *self.prober.stats()
    }
}
