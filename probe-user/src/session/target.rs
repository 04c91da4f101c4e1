//! Who is probed, and what is known of it.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use probe_ebpf::siphash::SipKey;
use probe_ebpf::wire::NodeId;
use probe_ebpf::wire::ntp::{NtpTime, UNKNOWN_ERROR};
use probe_ebpf::wire::probe::{Answer, PROBE_LEN, Request};

use super::renewal::Renewal;
use super::stats::Rejection;
use super::window::Window;
use crate::keys::{NodeKey, NodeKeys};

/// Names a target; chosen by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TargetId(pub u32);

/// A node to probe.
#[derive(Clone, Debug)]
pub struct Target {
    /// The node's id.
    pub node: NodeId,
    /// The node's keys. The current one signs; replies may be signed with either.
    pub keys: NodeKeys,
    /// Where it answers. All are probed in each round. With none, rounds begin all the same.
    pub addresses: Vec<IpAddr>,
}

/// Why a target cannot be probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// Replies are told apart by source address.
    #[error("address {address} belongs to target {} already", .owner.0)]
    AddressTaken {
        /// The address.
        address: IpAddr,
        /// Whose it is.
        owner: TargetId,
    },
    /// Not the address of one host.
    #[error("address {address} is not that of one host")]
    NotUnicast {
        /// The address.
        address: IpAddr,
    },
}

#[derive(Clone, Copy)]
struct Key {
    id: u16,
    sip: SipKey,
}

impl From<&NodeKey> for Key {
    fn from(key: &NodeKey) -> Self {
        Self {
            id: key.id,
            sip: key.sip(),
        }
    }
}

/// A point in a node's life, as its replies tell it.
#[derive(Clone, Copy, Default)]
struct Moment {
    incarnation: u64,
    node_time: u64,
}

impl Moment {
    fn is_before(&self, later: &Self) -> bool {
        self.incarnation == later.incarnation && self.node_time < later.node_time
    }
}

/// One address of a target.
struct Path {
    address: IpAddr,
    newest: Moment,
}

/// The round that is under way.
#[derive(Clone, Copy, Default)]
struct Round {
    number: u32,
    first_sequence: u32,
    /// Probes that the caller has taken and, as far as is known, sent.
    left: usize,
}

/// A probe that is ready but for its time of sending.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queued {
    pub(super) round: u32,
    pub(super) path: usize,
}

/// A probe, ready to be sent.
pub(super) struct Made {
    pub(super) sequence: u32,
    pub(super) to: SocketAddr,
    pub(super) payload: [u8; PROBE_LEN],
    /// It extends the node's lease, if the node agrees.
    pub(super) extends: bool,
}

/// All that is known of a target.
pub(super) struct TargetState {
    pub(super) id: TargetId,
    node: NodeId,
    current: Key,
    next: Option<Key>,
    paths: Vec<Path>,
    pub(super) window: Window,
    newest: Moment,
    /// When the reply that told `newest` arrived.
    newest_at: Option<Instant>,
    renewal: Option<Renewal>,
    /// When the newest reply arrived that was echoed in a probe that extends the lease.
    renewed_to: Option<Instant>,
    /// The incarnation before the present one: a reply from it was overtaken by the node's reboot.
    superseded: Option<u64>,
    round: Round,
    excused: Duration,
}

impl TargetState {
    /// `addresses` are unicast and distinct.
    pub(super) fn new(id: TargetId, target: &Target, addresses: &[IpAddr], sequence: u32) -> Self {
        Self {
            id,
            node: target.node,
            current: target.keys.current().into(),
            next: target.keys.all().get(1).map(Key::from),
            paths: addresses
                .iter()
                .map(|&address| Path::new(address))
                .collect(),
            window: Window::new(sequence),
            newest: Moment::default(),
            newest_at: None,
            renewal: None,
            renewed_to: None,
            superseded: None,
            round: Round {
                first_sequence: sequence,
                ..Round::default()
            },
            excused: Duration::ZERO,
        }
    }

    /// Whether this is the state of the same node.
    pub(super) fn is_node(&self, node: NodeId) -> bool {
        self.node == node
    }

    /// Takes over new keys and addresses; what is known of the node, and of those addresses that
    /// it keeps, stays.
    pub(super) fn replace(&mut self, target: &Target, addresses: &[IpAddr]) {
        self.current = target.keys.current().into();
        self.next = target.keys.all().get(1).map(Key::from);
        if self.addresses().eq(addresses.iter().copied()) {
            return;
        }
        let mut old = std::mem::take(&mut self.paths);
        let mut take = |address| match old.iter().position(|path| path.address == address) {
            Some(index) => old.swap_remove(index),
            None => Path::new(address),
        };
        self.paths = addresses.iter().map(|&address| take(address)).collect();
        self.window
            .void_others(|address| addresses.contains(&address));
        if self.round.number != 0 {
            // What is queued names paths that may have changed.
            self.round.number = self.round.number.wrapping_add(1);
        }
    }

    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.paths.iter().map(|path| path.address)
    }

    /// Adds time that is not the node's silence.
    pub(super) fn excuse(&mut self, time: Duration) {
        self.excused += time;
    }

    /// Ends the round that is under way, which lasted for `period`, and begins another. Returns
    /// the time since the last round that is not the node's silence.
    pub(super) fn begin_round(&mut self, period: Duration) -> Duration {
        let nothing_left = self.round.left == 0 && !self.paths.is_empty();
        if self.round.number != 0 && nothing_left {
            self.excused += period;
        }
        self.round = Round {
            number: self.round.number.wrapping_add(1),
            first_sequence: self.window.next_sequence(),
            left: 0,
        };
        std::mem::take(&mut self.excused)
    }

    /// The probes of the round that is under way.
    pub(super) fn queue(&self) -> impl Iterator<Item = Queued> {
        let round = self.round.number;
        (0..self.paths.len()).map(move |path| Queued { round, path })
    }

    /// Makes a probe that is sent `now`. `None`: its round is over. It extends no lease if the reply
    /// that it echoes came later than `entitled`.
    pub(super) fn probe(
        &mut self,
        queued: Queued,
        now: Instant,
        timestamp: NtpTime,
        port: u16,
        entitled: Option<Instant>,
    ) -> Option<Made> {
        if queued.round != self.round.number {
            return None;
        }
        let address = self.paths.get(queued.path)?.address;
        let sequence = self.window.push(now, timestamp, address);
        self.round.left += 1;
        let heard = self.newest_at;
        let renewal = self
            .renewal
            .filter(|renewal| renewal.applies(heard, entitled));
        if renewal.is_some() {
            self.renewed_to = heard;
        }
        let renewal = renewal.as_ref();
        let request = Request {
            sequence,
            timestamp,
            error_estimate: UNKNOWN_ERROR,
            ssid: 0,
            flags: renewal.map_or(0, Renewal::flags),
            key_id: self.current.id,
            lease_ms: renewal.map_or(0, Renewal::millis),
            node_id: self.node,
            epoch_floor: renewal.map_or(0, |renewal| renewal.floor),
            incarnation: self.newest.incarnation,
            node_time: self.newest.node_time,
            prober: renewal.map_or(0, Renewal::instance),
        };
        Some(Made {
            sequence,
            to: SocketAddr::new(address, port),
            payload: request.encode(&self.current.sip).to_bytes(),
            extends: renewal.is_some(),
        })
    }

    /// Takes back a probe that could not be sent. Whether there was one.
    pub(super) fn refuse(&mut self, sequence: u32) -> bool {
        let refused = self.window.void(sequence);
        let of_round = sequence.wrapping_sub(self.round.first_sequence)
            < self
                .window
                .next_sequence()
                .wrapping_sub(self.round.first_sequence);
        if refused && of_round {
            self.round.left -= 1;
        }
        refused
    }

    /// From its next probe on, has probes extend the lease, or no longer. Returns when the newest
    /// reply arrived that any probe before echoed while it extended the lease.
    pub(super) fn set_renewal(&mut self, renewal: Option<Renewal>) -> Option<Instant> {
        self.renewal = renewal;
        self.renewed_to
    }

    /// The key of this node with this id.
    pub(super) fn key(&self, node: NodeId, id: u16) -> Option<SipKey> {
        let keys = [Some(&self.current), self.next.as_ref()];
        let key = keys
            .into_iter()
            .flatten()
            .find(|key| key.id == id && node == self.node)?;
        Some(key.sip)
    }

    /// Notes what an authentic, timely reply says. Whether it is the node's latest word.
    pub(super) fn note(
        &mut self,
        at: Instant,
        from: IpAddr,
        answer: &Answer,
    ) -> Result<bool, Rejection> {
        let moment = Moment {
            incarnation: answer.incarnation,
            node_time: answer.node_time,
        };
        let path = self.paths.iter_mut().find(|path| path.address == from);
        let path = path.ok_or(Rejection::UnexpectedSource)?;
        if moment.is_before(&path.newest) || self.superseded == Some(moment.incarnation) {
            return Err(Rejection::Reordered);
        }
        path.newest = moment;
        if moment.is_before(&self.newest) {
            return Ok(false);
        }
        if moment.incarnation != self.newest.incarnation && self.newest.incarnation != 0 {
            self.superseded = Some(self.newest.incarnation);
        }
        (self.newest, self.newest_at) = (moment, Some(at));
        Ok(true)
    }
}

impl Path {
    fn new(address: IpAddr) -> Self {
        Self {
            address,
            newest: Moment::default(),
        }
    }
}
