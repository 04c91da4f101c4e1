//! What has been counted.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use aya::maps::{MapData, MapError};
use aya::util::nr_cpus;
use nix::time::{ClockId, clock_gettime};
use probe_ebpf::maps::{Encapsulation, NO_VNI, TunnelCount, TunnelKey, TunnelPeer};

use crate::kernel::entries;
use crate::kernel::error::KernelError;
use crate::kernel::maps::{self, TUNNEL_PEERS};
use crate::kernel::value::Value;

/// The counters of all peers.
pub struct Tunnels {
    peers: MapData,
    /// One for each CPU that there can be.
    values: usize,
}

/// What has been counted of a tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The other end's outer address.
    pub address: IpAddr,
    /// How packets are wrapped.
    pub encapsulation: Encapsulation,
    /// The VXLAN or Geneve network, where these are told apart.
    pub vni: Option<u32>,
    /// What came from the peer.
    pub received: Traffic,
    /// What was sent to it.
    pub sent: Traffic,
}

/// Packets of one direction, as they are on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Packets.
    pub packets: u64,
    /// Bytes from the Ethernet header on.
    pub bytes: u64,
    /// Since the last packet, to a tick of the kernel's (1 to 10 ms); `None`: there has been none.
    pub age: Option<Duration>,
}

impl Tunnels {
    /// Opens the map that is pinned in `directory`.
    pub fn open(directory: &Path) -> Result<Self, KernelError> {
        maps::check_pinned(directory)?;
        let path = directory.join(TUNNEL_PEERS);
        let peers = MapData::from_pin(path).map_err(KernelError::map("open", TUNNEL_PEERS))?;
        let values = nr_cpus().map_err(|(_, error)| failed(error))?;
        Ok(Self { peers, values })
    }

    /// Every tunnel that is remembered, by address. An age is as of the end of the reading.
    pub fn peers(&self) -> Result<Vec<Peer>, KernelError> {
        self.peers_where(|_| true)
    }

    /// The same of those to addresses that are `wanted`.
    pub fn peers_where(&self, wanted: impl Fn(IpAddr) -> bool) -> Result<Vec<Peer>, KernelError> {
        let mut found = Vec::new();
        let value_size = self.values * size_of::<TunnelPeer>();
        entries::read_entries(&self.peers, value_size, |key, values| {
            let key = Value::<TunnelKey>::read(key);
            if wanted(address_of(&key)) {
                let values = values.chunks_exact(size_of::<TunnelPeer>());
                found.push((key, sum(values.map(Value::read))));
            }
        })
        .map_err(failed)?;
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_err(|error| failed(error.into()))?;
        let now = Duration::from(now).as_nanos() as u64;
        let peer = |(key, peer): (TunnelKey, TunnelPeer)| Peer {
            address: address_of(&key),
            encapsulation: key.encapsulation,
            vni: (key.vni != NO_VNI).then_some(key.vni),
            received: Traffic::new(&peer.received, now),
            sent: Traffic::new(&peer.sent, now),
        };
        let mut peers: Vec<_> = found.into_iter().map(peer).collect();
        peers.sort_by_key(|peer| (peer.address, peer.encapsulation, peer.vni));
        Ok(peers)
    }
}

fn address_of(key: &TunnelKey) -> IpAddr {
    IpAddr::from(key.address).to_canonical()
}

fn failed(error: std::io::Error) -> KernelError {
    KernelError::map("read", TUNNEL_PEERS)(MapError::IoError(error))
}

fn sum(values: impl Iterator<Item = TunnelPeer>) -> TunnelPeer {
    let mut sum = TunnelPeer::default();
    for value in values {
        for (sum, value) in [
            (&mut sum.received, value.received),
            (&mut sum.sent, value.sent),
        ] {
            sum.packets += value.packets;
            sum.bytes += value.bytes;
            sum.last_ns = sum.last_ns.max(value.last_ns);
        }
    }
    sum
}

impl Traffic {
    fn new(count: &TunnelCount, now: u64) -> Self {
        Self {
            packets: count.packets,
            bytes: count.bytes,
            age: (count.last_ns != 0)
                .then(|| Duration::from_nanos(now.saturating_sub(count.last_ns))),
        }
    }
}
