//! The maps of the tunnel counters.

use super::Switch;

/// Peers that are told apart unless configured otherwise; beyond them the one unseen for longest is
/// forgotten.
pub const DEFAULT_TUNNEL_PEERS: usize = 16_384;
/// UDP ports of tunnels that a configuration holds.
pub const MAX_TUNNEL_PORTS: usize = 16;
/// UDP ports of tunnels, and what they carry, unless configured otherwise: VXLAN as
/// registered, as Linux has it by default, and a third that is in use.
pub const DEFAULT_TUNNEL_PORTS: [(u16, Encapsulation); 5] = [
    (4789, Encapsulation::Vxlan),
    (8472, Encapsulation::Vxlan),
    (7789, Encapsulation::Vxlan),
    (6081, Encapsulation::Geneve),
    (51_820, Encapsulation::WireGuard),
];
/// The VNI of tunnels that have none, or whose VNIs are not told apart.
pub const NO_VNI: u32 = u32::MAX;

/// How a tunnel wraps its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u32)]
pub enum Encapsulation {
    /// RFC 7348.
    Vxlan,
    /// RFC 8926.
    Geneve,
    /// WireGuard.
    WireGuard,
    /// IPv4 in IP: protocol 4.
    Ipip,
    /// IPv6 in IP: protocol 41.
    Sit,
    /// RFC 2784: protocol 47.
    Gre,
}

impl Encapsulation {
    /// Every one.
    pub const ALL: [Self; 6] = [
        Self::Vxlan,
        Self::Geneve,
        Self::WireGuard,
        Self::Ipip,
        Self::Sit,
        Self::Gre,
    ];

    /// The one of this number.
    #[inline(always)]
    pub const fn from_index(index: u32) -> Option<Self> {
        if index < Self::ALL.len() as u32 {
            // SAFETY: `repr(u32)`, and the discriminants are 0 to 5, as the order of `ALL`.
            Some(unsafe { core::mem::transmute::<u32, Self>(index) })
        } else {
            None
        }
    }

    /// Name in metrics and texts.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Vxlan => "vxlan",
            Self::Geneve => "geneve",
            Self::WireGuard => "wireguard",
            Self::Ipip => "ipip",
            Self::Sit => "sit",
            Self::Gre => "gre",
        }
    }
}

/// A UDP port and what it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct TunnelPort {
    /// The port; 0 = none.
    pub port: u32,
    /// What packets to it are.
    pub encapsulation: Encapsulation,
}

/// `TUNNEL_CONFIG`: what is counted. One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct TunnelConfig {
    /// UDP ports of tunnels.
    pub ports: [TunnelPort; MAX_TUNNEL_PORTS],
    /// Entries of `ports` in use.
    pub port_count: u32,
    /// Index of the interface on which the XDP program counts; 0 = on none.
    pub xdp_interface: u32,
    /// Whether the VNIs of VXLAN and Geneve are told apart.
    pub per_vni: Switch,
    /// Padding.
    pub pad: [u8; 7],
}

impl TunnelConfig {
    /// These ports, at most [`MAX_TUNNEL_PORTS`] of them; VNIs are not told apart, and the XDP
    /// program counts nothing.
    pub fn new(ports: impl IntoIterator<Item = (u16, Encapsulation)>) -> Self {
        let none = TunnelPort {
            port: 0,
            encapsulation: Encapsulation::Vxlan,
        };
        let mut config = Self {
            ports: [none; MAX_TUNNEL_PORTS],
            port_count: 0,
            xdp_interface: 0,
            per_vni: Switch::Off,
            pad: [0; 7],
        };
        for (slot, (port, encapsulation)) in config.ports.iter_mut().zip(ports) {
            *slot = TunnelPort {
                port: port.into(),
                encapsulation,
            };
            config.port_count += 1;
        }
        config
    }

    /// What a UDP packet between these ports carries, if it is a tunnel's. WireGuard's peers may
    /// send from their port to any other.
    #[inline(always)]
    pub fn udp_tunnel(&self, source: u16, destination: u16) -> Option<Encapsulation> {
        let used = self.ports.iter().take(self.port_count as usize);
        for TunnelPort {
            port,
            encapsulation,
        } in used
        {
            let from = matches!(encapsulation, Encapsulation::WireGuard) && *port == source as u32;
            if *port == destination as u32 || from {
                return Some(*encapsulation);
            }
        }
        None
    }
}

/// Key of `TUNNEL_PEERS`: the other end of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(C)]
pub struct TunnelKey {
    /// The peer's outer address; IPv4 in its mapped form.
    pub address: [u8; 16],
    /// The VXLAN or Geneve network, or [`NO_VNI`].
    pub vni: u32,
    /// How its packets are wrapped.
    pub encapsulation: Encapsulation,
}

/// Value of `TUNNEL_PEERS`, by CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct TunnelPeer {
    /// What came from the peer.
    pub received: TunnelCount,
    /// What was sent to it.
    pub sent: TunnelCount,
}

/// `TUNNEL_SEEN`: the last packet that was received from any peer. One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct TunnelSeen {
    /// When: monotonic clock to a tick, ns; 0 = never. Within a tick nothing is written.
    pub tick_ns: u64,
    /// When the first of that tick was: boot clock, ns; 0 = never.
    pub last_ns: u64,
}

/// Packets of one direction, as they are on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct TunnelCount {
    /// Packets; a packet that the kernel handles as one but sends as several counts as several.
    pub packets: u64,
    /// Their bytes from the Ethernet header on, without the frame check sequence.
    pub bytes: u64,
    /// When the last one was counted: monotonic clock to a tick (1 to 10 ms), ns; 0 = never.
    pub last_ns: u64,
}

impl TunnelCount {
    /// Counts `packets` of together `bytes` at `now`.
    #[inline(always)]
    pub const fn add(&mut self, packets: u64, bytes: u64, now: u64) {
        self.packets += packets;
        self.bytes += bytes;
        self.last_ns = now;
    }
}
