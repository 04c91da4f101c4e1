//! A node whose every value is at hand.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::vec::Vec;

use crate::lease::{Ask, Keeper, consider};
use crate::maps::{
    AgentBeat, AgentState, Assignment, KEY_SLOTS, LocalChecks, NodeLease, Prefix, ProbeConfig,
    ProbeKey, ProberKey, Switch, Witness,
};
use crate::outcome::Outcome;
use crate::reflect::Node;
use crate::siphash::SipKey;
use crate::wire::NodeId;
use crate::wire::ntp::{NtpTime, UNKNOWN_ERROR};
use crate::wire::probe::Request;

/// A prober's address.
pub const SOURCE_V4: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// A prober's address.
pub const SOURCE_V6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1);
/// A key that the node does not have.
pub const OTHER_KEY: [u8; 16] = *b"not the node's k";

/// Instance ids of the node's witnesses.
pub const WITNESSES: [u64; 5] = [0xa1, 0xa2, 0xa3, 0xa4, 0xa5];
/// The longest lease that the node grants, ms.
pub const LEASE_LIMIT_MS: u32 = 2000;

const CURRENT_KEY: [u8; 16] = *b"the current key.";
const NEXT_KEY: [u8; 16] = *b"and the next key";
const MANAGEMENT_V4: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const MANAGEMENT_V6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2);

/// The contents of all maps that the reflector reads, and a clock that stands still.
pub struct HostNode {
    /// `PROBE_CONFIG`.
    pub config: ProbeConfig,
    /// `PROBE_KEYS`.
    pub keys: [ProbeKey; KEY_SLOTS],
    /// `AGENT_BEAT`.
    pub beat: AgentBeat,
    /// `ASSIGNMENT`.
    pub assignment: Assignment,
    /// `WITNESSES`, by instance id.
    pub witnesses: Vec<(u64, Witness)>,
    /// `NODE_LEASE`.
    pub lease: RefCell<NodeLease>,
    /// When a tunnel's packet was last received: boot clock, ns; 0 = never.
    pub tunnel_seen: u64,
    /// Boot clock, ns.
    pub now: u64,
    /// Who has been answered, and whether a RENEW or VOTE was honoured.
    pub answered: RefCell<Vec<(ProberKey, bool)>>,
}

impl Node for HostNode {
    fn config(&self) -> Option<&ProbeConfig> {
        Some(&self.config)
    }

    fn key(&self, slot: u32) -> Option<&ProbeKey> {
        self.keys.get(slot as usize)
    }

    fn beat(&self) -> Option<&AgentBeat> {
        Some(&self.beat)
    }

    fn assignment(&self) -> Option<&Assignment> {
        Some(&self.assignment)
    }

    fn consider(&self, ask: &Ask, now: u64) -> Outcome {
        consider(ask, &self.assignment, now, self)
    }

    fn lease_expires(&self) -> u64 {
        self.lease.borrow().expires_ns
    }

    fn tunnel_seen(&self) -> Option<u64> {
        Some(self.tunnel_seen)
    }

    fn now(&self) -> u64 {
        self.now
    }

    fn answered(&self, prober: &ProberKey, _now: u64, honoured: bool) {
        self.answered.borrow_mut().push((*prober, honoured));
    }
}

impl Keeper for HostNode {
    fn witness(&self, instance: u64) -> Option<&Witness> {
        let found = self.witnesses.iter().find(|(id, _)| *id == instance)?;
        Some(&found.1)
    }

    fn change_lease<T>(&self, change: impl FnOnce(&mut NodeLease) -> T) -> Option<T> {
        Some(change(&mut self.lease.borrow_mut()))
    }
}

impl HostNode {
    /// The node's IPv4 or IPv6 management address, whichever `like` is.
    pub const fn address(like: IpAddr) -> IpAddr {
        match like {
            IpAddr::V4(_) => IpAddr::V4(MANAGEMENT_V4),
            IpAddr::V6(_) => IpAddr::V6(MANAGEMENT_V6),
        }
    }

    /// The key that [`request`] names.
    pub const fn current_key() -> SipKey {
        SipKey::from_bytes(&CURRENT_KEY)
    }

    /// The key with the next id.
    pub const fn next_key() -> SipKey {
        SipKey::from_bytes(&NEXT_KEY)
    }
}

/// A node `n1` with two keys, both families, and plain STAMP and S-BFD on; its agent is up.
pub fn test_node() -> HostNode {
    let mut config = ProbeConfig::new(NodeId::of("n1").0);
    config.addresses[0] = host(MANAGEMENT_V4.to_ipv6_mapped());
    config.addresses[1] = host(MANAGEMENT_V6);
    config.address_count = 2;
    config.plain_stamp = Switch::On;
    config.sbfd = Switch::On;
    config.sbfd_discriminator = 77;
    config.sbfd_min_rx_us = 10_000;
    config.sources[0] = Prefix::new(Ipv4Addr::new(10, 77, 0, 0).to_ipv6_mapped().octets(), 120);
    config.sources[1] = Prefix::new(SOURCE_V6.octets(), 64);
    config.source_count = 2;
    HostNode {
        config,
        keys: [ProbeKey::new(1, CURRENT_KEY), ProbeKey::new(2, NEXT_KEY)],
        beat: AgentBeat {
            last_ns: 5_000_000_000,
            deadline_ns: 5_500_000_000,
            wall_offset_ns: 1_790_000_000_000_000_000,
            state: AgentState::Running,
            checks: LocalChecks::None,
        },
        assignment: Assignment {
            incarnation: 0x1234_5678_9abc_def0,
            applied_epoch: 7,
            witness_version: 4,
            witness_count: WITNESSES.len() as u32,
            lease_limit_ms: LEASE_LIMIT_MS,
        },
        witnesses: witness_set(4, &WITNESSES),
        lease: RefCell::default(),
        tunnel_seen: 0,
        now: 5_123_456_789,
        answered: RefCell::default(),
    }
}

/// A witness set as `WITNESSES` holds it.
pub fn witness_set(set_version: u64, instances: &[u64]) -> Vec<(u64, Witness)> {
    let member = |(slot, instance): (usize, &u64)| {
        let witness = Witness {
            set_version,
            set_size: instances.len() as u32,
            slot: slot as u32,
        };
        (*instance, witness)
    };
    instances.iter().enumerate().map(member).collect()
}

/// What a prober asks that node.
pub fn request() -> Request {
    Request {
        sequence: 41,
        timestamp: NtpTime::from_unix_nanos(1_790_000_005_000_000_000),
        error_estimate: UNKNOWN_ERROR,
        ssid: 0xbeef,
        flags: 0,
        key_id: 1,
        lease_ms: 1400,
        node_id: NodeId::of("n1"),
        epoch_floor: 3,
        incarnation: 0x1234_5678_9abc_def0,
        node_time: 4_900_000_000,
        prober: 0,
    }
}

const fn host(address: Ipv6Addr) -> Prefix {
    Prefix::new(address.octets(), 128)
}
