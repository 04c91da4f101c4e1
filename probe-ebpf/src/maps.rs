//! Layout of the maps' keys and values. What agent and kernel both see, and what
//! `bpftool map dump` prints: plain integers, byte arrays, fieldless enums, explicit padding.
//!
//! A value has one writer. `PROBE_CONFIG`, `PROBE_KEYS`, `AGENT_BEAT`, `ASSIGNMENT`, `WITNESSES`,
//! `WITNESS_MEMORY`, `EGRESS_IPS` and `TUNNEL_CONFIG` are the agent's; `REFLECT_STATS`, `PROBERS`,
//! `NODE_LEASE`, `FENCE_STATS`, `TUNNEL_PEERS` and `TUNNEL_SEEN` are the kernel's.

use crate::outcome::Outcome;
use crate::siphash::SipKey;
use crate::wire::probe::age_ms;

/// Version of everything in this file; part of the pin directory's name. Any change of a map's
/// meaning, layout or size needs a new version, and a way to carry the old one's values over.
pub const LAYOUT_VERSION: u32 = 1;

/// Management addresses that a configuration holds.
pub const MAX_ADDRESSES: usize = 8;
/// Source prefixes of plain STAMP and S-BFD that a configuration holds.
pub const MAX_SOURCES: usize = 8;
/// Probers remembered before the one unseen for longest is forgotten.
pub const MAX_PROBERS: usize = 1024;
/// Keys valid at once.
pub const KEY_SLOTS: usize = 2;
/// Witnesses that a node's set holds at most.
pub const MAX_WITNESSES: usize = 7;
/// Nodes that one witness has ever been told a floor for, at most, and itself.
pub const MAX_WATCHED: usize = 16_384;
/// Addresses that the fence guards at most.
pub const MAX_EGRESS_IPS: usize = 16_384;

/// A type that may be copied to and from a map byte by byte.
///
/// # Safety
///
/// The type is `repr(C)`, has no padding that is not a field, and each bit pattern that either
/// side writes is a valid value of it.
pub unsafe trait MapValue: Copy + 'static {}

macro_rules! map_values {
    ($($name:ident: $size:literal,)*) => {
        $(
            const _: () = assert!(size_of::<$name>() == $size);
            // SAFETY: the type is repr(C) with explicit padding, and both sides write only
            // values of it.
            unsafe impl MapValue for $name {}
        )*
    };
}

mod fence;
mod lease;
mod memory;
mod tunnel;

pub use fence::{EgressGuard, EgressIp, FenceStat, Guard};
pub use lease::{Assignment, NodeLease, SpinLock, Witness, WitnessId};
pub use memory::{StoredFloor, WatchedNode};
pub use tunnel::{
    DEFAULT_TUNNEL_PEERS, DEFAULT_TUNNEL_PORTS, Encapsulation, MAX_TUNNEL_PORTS, NO_VNI,
    TunnelConfig, TunnelCount, TunnelKey, TunnelPeer, TunnelPort, TunnelSeen,
};

map_values! {
    Prefix: 32,
    ProbeConfig: 544,
    ProbeKey: 24,
    AgentBeat: 32,
    Assignment: 32,
    WitnessId: 8,
    Witness: 16,
    NodeLease: 104,
    WatchedNode: 8,
    StoredFloor: 16,
    EgressIp: 16,
    EgressGuard: 8,
    FenceStat: 16,
    ReflectStat: 16,
    TunnelConfig: 144,
    TunnelKey: 24,
    TunnelPeer: 48,
    TunnelSeen: 16,
    ProberKey: 24,
    ProberSeen: 24,
}

/// An IPv6 prefix, or an IPv4 one in its mapped form (::ffff:0:0/96).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(8))]
pub struct Prefix {
    address: [u8; 16],
    mask: [u8; 16],
}

impl Prefix {
    const NONE: Self = Self {
        address: [0; 16],
        mask: [0xff; 16],
    };

    /// The first `length` bits of `address`. `length` counts from the mapped form's first bit, so
    /// an IPv4 /24 has length 120; more than 128 counts as 128.
    pub const fn new(address: [u8; 16], length: u32) -> Self {
        let length = if length > 128 { 128 } else { length };
        let mask = if length == 0 {
            0
        } else {
            u128::MAX << (128 - length)
        };
        let address = u128::from_be_bytes(address) & mask;
        Self {
            address: address.to_be_bytes(),
            mask: mask.to_be_bytes(),
        }
    }

    /// The prefix's first address.
    pub const fn address(&self) -> [u8; 16] {
        self.address
    }

    /// Number of leading bits that count.
    pub const fn length(&self) -> u32 {
        u128::from_be_bytes(self.mask).leading_ones()
    }

    /// Whether `address` lies in the prefix.
    #[inline(always)]
    pub const fn contains(&self, address: &Address) -> bool {
        let [high, low] = halves(&self.address);
        let [high_mask, low_mask] = halves(&self.mask);
        ((address.high ^ high) & high_mask) | ((address.low ^ low) & low_mask) == 0
    }
}

/// An address as two words in packet byte order; IPv4 in its mapped form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    high: u64,
    low: u64,
}

impl Address {
    /// From the two halves of an IPv6 address as loaded from a packet.
    #[inline(always)]
    pub const fn from_words(high: u64, low: u64) -> Self {
        Self { high, low }
    }

    /// From an IPv4 address as loaded from a packet.
    #[inline(always)]
    pub const fn from_v4(word: u32) -> Self {
        Self {
            high: 0,
            low: (0xffff_0000_0000 | u32::from_be(word) as u64).to_be(),
        }
    }

    /// The address's 16 bytes.
    #[inline(always)]
    pub const fn octets(&self) -> [u8; 16] {
        ((u64::from_be(self.high) as u128) << 64 | u64::from_be(self.low) as u128).to_be_bytes()
    }

    /// Host-order halves, for tests of ranges.
    #[inline(always)]
    pub const fn to_host(self) -> (u64, u64) {
        (u64::from_be(self.high), u64::from_be(self.low))
    }
}

#[inline(always)]
const fn halves(bytes: &[u8; 16]) -> [u64; 2] {
    let whole = u128::from_ne_bytes(*bytes);
    if cfg!(target_endian = "little") {
        [whole as u64, (whole >> 64) as u64]
    } else {
        [(whole >> 64) as u64, whole as u64]
    }
}

/// On or off, printed by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Switch {
    /// Off.
    #[default]
    Off,
    /// On.
    On,
}

impl From<bool> for Switch {
    fn from(on: bool) -> Self {
        if on { Self::On } else { Self::Off }
    }
}

/// `PROBE_CONFIG`: what the reflector answers. One entry; a probe port of 0 means that the agent
/// has not written it yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ProbeConfig {
    /// The node's id.
    pub node_id: u64,
    /// S-BFD discriminator of the node.
    pub sbfd_discriminator: u32,
    /// S-BFD Required Min RX Interval that is announced, µs.
    pub sbfd_min_rx_us: u32,
    /// UDP port of authenticated probes and plain STAMP.
    pub probe_port: u16,
    /// UDP port of S-BFD.
    pub sbfd_port: u16,
    /// Error estimate put into replies (RFC 8762 section 4.2.1).
    pub error_estimate: u16,
    /// Whether plain STAMP is answered.
    pub plain_stamp: Switch,
    /// Whether S-BFD is answered.
    pub sbfd: Switch,
    /// Entries of `addresses` in use.
    pub address_count: u32,
    /// Entries of `sources` in use.
    pub source_count: u32,
    /// The node's management addresses.
    pub addresses: [Prefix; MAX_ADDRESSES],
    /// Who may send plain STAMP and S-BFD.
    pub sources: [Prefix; MAX_SOURCES],
}

impl ProbeConfig {
    /// A configuration that answers nothing yet: no address, authenticated probes only.
    pub const fn new(node_id: u64) -> Self {
        Self {
            node_id,
            sbfd_discriminator: 0,
            sbfd_min_rx_us: 0,
            probe_port: crate::wire::PROBE_PORT,
            sbfd_port: crate::wire::SBFD_PORT,
            error_estimate: crate::wire::ntp::UNKNOWN_ERROR,
            plain_stamp: Switch::Off,
            sbfd: Switch::Off,
            address_count: 0,
            source_count: 0,
            addresses: [Prefix::NONE; MAX_ADDRESSES],
            sources: [Prefix::NONE; MAX_SOURCES],
        }
    }

    /// Whether `address` is one of the node's management addresses.
    #[inline(always)]
    pub fn is_own(&self, address: &Address) -> bool {
        any_contains(&self.addresses, self.address_count, address)
    }

    /// Whether plain STAMP and S-BFD from `address` are answered.
    #[inline(always)]
    pub fn allows_source(&self, address: &Address) -> bool {
        any_contains(&self.sources, self.source_count, address)
    }
}

#[inline(always)]
fn any_contains<const N: usize>(prefixes: &[Prefix; N], count: u32, address: &Address) -> bool {
    prefixes
        .iter()
        .take(count as usize)
        .any(|prefix| prefix.contains(address))
}

/// `PROBE_KEYS`: a key of the node. While keys are rotated there are two, in either order.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct ProbeKey {
    key: [u8; 16],
    id: u16,
    state: KeyState,
    pad: [u8; 5],
}

/// Whether a slot of `PROBE_KEYS` holds a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum KeyState {
    /// No key.
    #[default]
    Empty,
    /// Probes signed with this key are answered.
    Valid,
}

impl ProbeKey {
    /// A slot without a key.
    pub const EMPTY: Self = Self {
        key: [0; 16],
        id: 0,
        state: KeyState::Empty,
        pad: [0; 5],
    };

    /// A valid key.
    pub const fn new(id: u16, key: [u8; 16]) -> Self {
        Self {
            key,
            id,
            state: KeyState::Valid,
            pad: [0; 5],
        }
    }

    /// The key, if the slot holds one with this id.
    #[inline(always)]
    pub const fn with_id(&self, id: u16) -> Option<SipKey> {
        if matches!(self.state, KeyState::Valid) && self.id == id {
            Some(SipKey::from_bytes(&self.key))
        } else {
            None
        }
    }

    /// The id, if the slot holds a key.
    pub const fn id(&self) -> Option<u16> {
        match self.state {
            KeyState::Valid => Some(self.id),
            KeyState::Empty => None,
        }
    }
}

/// What the agent does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u32)]
pub enum AgentState {
    /// No agent has run yet.
    #[default]
    Absent,
    /// Running, or gone without a word: the deadline tells.
    Running,
    /// Asked to stop.
    Draining,
}

/// Verdict of the agent's local checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u32)]
pub enum LocalChecks {
    /// None are configured.
    #[default]
    None,
    /// All pass.
    Passing,
    /// One or more fail; the agent does not beat.
    Failing,
}

/// `AGENT_BEAT`: the agent's sign of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct AgentBeat {
    /// When the agent last beat: boot clock, ns; 0 = never.
    pub last_ns: u64,
    /// Until when that beat counts: boot clock, ns.
    pub deadline_ns: u64,
    /// Unix time minus boot clock, ns.
    pub wall_offset_ns: u64,
    /// What the agent does.
    pub state: AgentState,
    /// Verdict of the local checks.
    pub checks: LocalChecks,
}

impl AgentBeat {
    /// Whether the agent counts as up at `now` (boot clock, ns).
    #[inline(always)]
    pub const fn is_up(&self, now: u64) -> bool {
        now <= self.deadline_ns
    }

    /// Milliseconds since the last beat, saturating; [`crate::wire::probe::NEVER`] before the first.
    #[inline(always)]
    pub const fn age_ms(&self, now: u64) -> u32 {
        age_ms(self.last_ns, now)
    }
}

/// `REFLECT_STATS`, by outcome and CPU. The agent writes the names once, before anything counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct ReflectStat {
    /// Packets with this outcome.
    pub packets: u64,
    /// The outcome that is counted here.
    pub outcome: Outcome,
    /// Padding.
    pub pad: u32,
}

/// Key of `PROBERS`: where authenticated probes come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct ProberKey {
    /// Source address; IPv4 in its mapped form.
    pub address: [u8; 16],
    /// Source port.
    pub port: u16,
    /// Padding.
    pub pad: [u8; 6],
}

/// Value of `PROBERS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct ProberSeen {
    /// Last probe answered: boot clock, ns.
    pub last_ns: u64,
    /// Probes answered.
    pub probes: u64,
    /// Last RENEW or VOTE that was honoured: boot clock, ns; 0 = none.
    pub honoured_ns: u64,
}
