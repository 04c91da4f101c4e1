//! A prober on its socket, run by the test itself.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use probe_ebpf::wire::NodeId;
use probe_user::keys::NodeKeys;
use probe_user::session::{
    Event, ProbeSettings, ProbeSocket, Prober, ProberStats, SocketOptions, Target, TargetId,
};
use pulsepath_tests::Netns;

use crate::scene::PATIENCE;

pub(crate) const PERIOD: Duration = Duration::from_millis(20);
const REPLY_WINDOW: Duration = Duration::from_millis(500);
/// How long one wait lasts at most.
const STEP: Duration = Duration::from_millis(5);

pub(crate) struct Probing {
    pub(crate) socket: ProbeSocket,
    pub(crate) prober: Prober,
    /// Everything that has happened.
    pub(crate) events: Vec<Event>,
}

impl Probing {
    /// A prober whose sockets are in `netns`.
    pub(crate) fn new(netns: &Netns) -> Self {
        let settings = ProbeSettings {
            period: PERIOD,
            reply_window: REPLY_WINDOW,
            port: 862,
        };
        let socket = netns
            .enter(|| ProbeSocket::bind(&SocketOptions::default()))
            .unwrap();
        Self {
            socket: socket.unwrap(),
            prober: Prober::new(settings, 1),
            events: Vec::new(),
        }
    }

    pub(crate) fn insert(&mut self, id: u32, keys: NodeKeys, addresses: &[IpAddr]) {
        let node = NodeId::of(keys.node());
        let target = Target {
            node,
            keys,
            addresses: addresses.to_vec(),
        };
        self.prober
            .insert(Instant::now(), TargetId(id), target)
            .unwrap();
    }

    /// Waits for a moment, and does what there is to do.
    pub(crate) fn step(&mut self) {
        let latest = Instant::now() + STEP;
        let until = self
            .prober
            .next_wake()
            .map_or(latest, |wake| wake.min(latest));
        self.socket.wait(Some(until)).unwrap();
        self.socket.exchange(&mut self.prober).unwrap();
        self.collect();
    }

    pub(crate) fn collect(&mut self) {
        self.events
            .extend(std::iter::from_fn(|| self.prober.poll_event()));
    }

    /// Probes until `condition` holds.
    #[track_caller]
    pub(crate) fn until(&mut self, condition: impl Fn(&Self) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !condition(self) {
            assert!(
                Instant::now() < end,
                "not within {PATIENCE:?}: {:?}",
                self.stats()
            );
            self.step();
        }
    }

    /// Probes on until so many more rounds have begun.
    pub(crate) fn rounds(&mut self, count: u64) {
        let end = self.stats().rounds + count;
        self.until(|probing| probing.stats().rounds >= end);
    }

    pub(crate) fn stats(&self) -> ProberStats {
        *self.prober.stats()
    }

    /// How many replies were accepted from `id`.
    pub(crate) fn replies(&self, id: u32) -> usize {
        let from = |event: &&Event| matches!(event, Event::Reply { target, .. } if *target == TargetId(id));
        self.events.iter().filter(from).count()
    }
}
