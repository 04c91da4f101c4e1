//! The pinned maps, with their types.

use std::fs;
use std::path::Path;

use aya::maps::{Array, HashMap, Map, MapData, MapError, MapInfo, MapType, PerCpuArray};
use probe_ebpf::fence::FenceOutcome;
use probe_ebpf::maps::{
    AgentBeat, Assignment, EgressGuard, EgressIp, FenceStat, KEY_SLOTS, MAX_EGRESS_IPS,
    MAX_PROBERS, MAX_WATCHED, MAX_WITNESSES, NodeLease, ProbeConfig, ProbeKey, ProberKey,
    ProberSeen, ReflectStat, StoredFloor, TunnelConfig, TunnelKey, TunnelPeer, TunnelSeen,
    WatchedNode, Witness, WitnessId,
};
use probe_ebpf::outcome::Outcome;

use super::error::{KernelError, MapShape};
use super::lease::LeaseMaps;
use super::stats::{self, Counter};
use super::value::Value;

pub(super) const PROBE_CONFIG: &str = "PROBE_CONFIG";
pub(super) const PROBE_KEYS: &str = "PROBE_KEYS";
pub(super) const AGENT_BEAT: &str = "AGENT_BEAT";
pub(super) const ASSIGNMENT: &str = "ASSIGNMENT";
pub(super) const WITNESSES: &str = "WITNESSES";
pub(super) const WITNESS_MEMORY: &str = "WITNESS_MEMORY";
pub(super) const NODE_LEASE: &str = "NODE_LEASE";
pub(super) const EGRESS_IPS: &str = "EGRESS_IPS";
pub(super) const FENCE_STATS: &str = "FENCE_STATS";
pub(super) const REFLECT_STATS: &str = "REFLECT_STATS";
pub(super) const TUNNEL_CONFIG: &str = "TUNNEL_CONFIG";
pub(super) const TUNNEL_PEERS: &str = "TUNNEL_PEERS";
const TUNNEL_SEEN: &str = "TUNNEL_SEEN";
const PROBERS: &str = "PROBERS";

/// A map that this layout version has.
pub(super) struct MapSpec {
    pub(super) name: &'static str,
    shape: MapShape,
}

/// Every map of this layout version.
pub(super) const SPECS: [MapSpec; 14] = [
    array::<ProbeConfig>(PROBE_CONFIG, 1),
    array::<ProbeKey>(PROBE_KEYS, KEY_SLOTS),
    array::<AgentBeat>(AGENT_BEAT, 1),
    array::<Assignment>(ASSIGNMENT, 1),
    spec::<WitnessId, Witness>(WITNESSES, MapType::Hash, MAX_WITNESSES),
    spec::<WatchedNode, StoredFloor>(WITNESS_MEMORY, MapType::Hash, MAX_WATCHED),
    array::<NodeLease>(NODE_LEASE, 1),
    spec::<EgressIp, EgressGuard>(EGRESS_IPS, MapType::Hash, MAX_EGRESS_IPS),
    spec::<u32, FenceStat>(FENCE_STATS, MapType::PerCpuArray, FenceOutcome::COUNT),
    spec::<u32, ReflectStat>(REFLECT_STATS, MapType::PerCpuArray, Outcome::COUNT),
    spec::<ProberKey, ProberSeen>(PROBERS, MapType::LruHash, MAX_PROBERS),
    array::<TunnelConfig>(TUNNEL_CONFIG, 1),
    // Its number of entries is configured.
    spec::<TunnelKey, TunnelPeer>(TUNNEL_PEERS, MapType::LruPerCpuHash, ANY_NUMBER),
    array::<TunnelSeen>(TUNNEL_SEEN, 1),
];

/// Stands for a number of entries that is chosen when the map is made.
const ANY_NUMBER: usize = 0;

const fn array<V>(name: &'static str, entries: usize) -> MapSpec {
    spec::<u32, V>(name, MapType::Array, entries)
}

const fn spec<K, V>(name: &'static str, map_type: MapType, entries: usize) -> MapSpec {
    let shape = MapShape {
        map_type,
        key_size: size_of::<K>() as u32,
        value_size: size_of::<V>() as u32,
        max_entries: entries as u32,
    };
    MapSpec { name, shape }
}

/// Checks every map that is pinned in `directory`. aya reuses a pin whatever it is, so that a
/// program would read and write another layout.
pub(super) fn check_pinned(directory: &Path) -> Result<(), KernelError> {
    for spec in &SPECS {
        let path = directory.join(spec.name);
        if !path.exists() {
            continue;
        }
        let pinned = shape(&path, spec.name)?;
        let mut expected = spec.shape;
        if expected.max_entries == ANY_NUMBER as u32 {
            expected.max_entries = pinned.max_entries;
        }
        if pinned != expected {
            return Err(KernelError::MapMismatch {
                path,
                pinned,
                expected,
            });
        }
    }
    Ok(())
}

/// How many entries `TUNNEL_PEERS` has. A map cannot have none.
pub(super) fn peers_held(tunnel_peers: Option<u32>) -> u32 {
    tunnel_peers.unwrap_or(1).max(1)
}

/// Forgets a pinned `TUNNEL_PEERS` of another number of entries: the next one begins from zero.
pub(super) fn make_room_for_peers(
    directory: &Path,
    tunnel_peers: Option<u32>,
) -> Result<(), KernelError> {
    let path = directory.join(TUNNEL_PEERS);
    if path.exists() && shape(&path, TUNNEL_PEERS)?.max_entries != peers_held(tunnel_peers) {
        fs::remove_file(&path).map_err(KernelError::file("remove", &path))?;
    }
    Ok(())
}

fn shape(path: &Path, name: &'static str) -> Result<MapShape, KernelError> {
    let info = MapInfo::from_pin(path).map_err(KernelError::map("examine", name))?;
    Ok(MapShape {
        map_type: info.map_type().map_err(KernelError::map("examine", name))?,
        key_size: info.key_size(),
        value_size: info.value_size(),
        max_entries: info.max_entries(),
    })
}

/// The maps of this layout version.
pub struct Maps {
    config: Array<MapData, Value<ProbeConfig>>,
    keys: Array<MapData, Value<ProbeKey>>,
    beat: Array<MapData, Value<AgentBeat>>,
    pub(super) assignment: Array<MapData, Value<Assignment>>,
    pub(super) lease: LeaseMaps,
    stats: PerCpuArray<MapData, Value<ReflectStat>>,
    probers: HashMap<MapData, Value<ProberKey>, Value<ProberSeen>>,
}

impl Maps {
    /// Opens the maps that are pinned in `directory`.
    pub fn open(directory: &Path) -> Result<Self, KernelError> {
        check_pinned(directory)?;
        Ok(Self {
            config: open(directory, PROBE_CONFIG)?,
            keys: open(directory, PROBE_KEYS)?,
            beat: open(directory, AGENT_BEAT)?,
            assignment: open(directory, ASSIGNMENT)?,
            lease: LeaseMaps {
                lease: open(directory, NODE_LEASE)?,
                witnesses: open(directory, WITNESSES)?,
            },
            stats: open(directory, REFLECT_STATS)?,
            probers: open(directory, PROBERS)?,
        })
    }

    /// What the reflector answers.
    pub fn config(&self) -> Result<ProbeConfig, KernelError> {
        get(&self.config, PROBE_CONFIG, 0)
    }

    /// Sets what the reflector answers. An equal value is not written: a packet could meet it half
    /// written.
    pub fn set_config(&mut self, config: &ProbeConfig) -> Result<(), KernelError> {
        if self.config()? == *config {
            return Ok(());
        }
        set(&mut self.config, PROBE_CONFIG, 0, *config)
    }

    /// The node's keys, by slot.
    pub fn keys(&self) -> Result<[ProbeKey; KEY_SLOTS], KernelError> {
        let mut keys = [ProbeKey::EMPTY; KEY_SLOTS];
        for (slot, key) in keys.iter_mut().enumerate() {
            *key = get(&self.keys, PROBE_KEYS, slot as u32)?;
        }
        Ok(keys)
    }

    /// Sets the node's keys. Slots that do not change are not written, as with
    /// [`Self::set_config`].
    pub fn set_keys(&mut self, keys: &[ProbeKey; KEY_SLOTS]) -> Result<(), KernelError> {
        let present = self.keys()?;
        for (slot, (key, present)) in keys.iter().zip(present).enumerate() {
            if *key != present {
                set(&mut self.keys, PROBE_KEYS, slot as u32, *key)?;
            }
        }
        Ok(())
    }

    /// The agent's sign of life.
    pub fn beat(&self) -> Result<AgentBeat, KernelError> {
        get(&self.beat, AGENT_BEAT, 0)
    }

    /// Writes the agent's sign of life.
    pub fn set_beat(&mut self, beat: &AgentBeat) -> Result<(), KernelError> {
        set(&mut self.beat, AGENT_BEAT, 0, *beat)
    }

    /// What the node has been given.
    pub fn assignment(&self) -> Result<Assignment, KernelError> {
        get(&self.assignment, ASSIGNMENT, 0)
    }

    /// Every counter, summed over the CPUs, in the order of [`Outcome::ALL`].
    pub fn counters(&self) -> Result<Vec<Counter>, KernelError> {
        stats::counters(&self.stats)
    }

    /// Who has sent authenticated probes.
    pub fn probers(&self) -> Result<Vec<(ProberKey, ProberSeen)>, KernelError> {
        let mut probers = Vec::new();
        for entry in self.probers.iter() {
            match entry {
                Ok((key, seen)) => probers.push((key.0, seen.0)),
                // Forgotten by the kernel between listing and reading.
                Err(MapError::KeyNotFound) => {}
                Err(error) => return Err(KernelError::map("read", PROBERS)(error)),
            }
        }
        Ok(probers)
    }

    /// Writes each counter's name beside it, for whoever dumps the map.
    pub(super) fn name_counters(&mut self) -> Result<(), KernelError> {
        stats::name_counters(&mut self.stats)
    }

    /// Gives maps that are new their incarnation. 0 is never one: it marks maps that are new, or
    /// whose maker was killed before it came this far.
    pub(super) fn begin_incarnation(&mut self) -> Result<(), KernelError> {
        let mut assignment = self.assignment()?;
        while assignment.incarnation == 0 {
            assignment.incarnation = getrandom::u64().map_err(|error| KernelError::Map {
                action: "choose an incarnation for",
                map: ASSIGNMENT,
                source: MapError::IoError(error.into()),
            })?;
            set(&mut self.assignment, ASSIGNMENT, 0, assignment)?;
        }
        Ok(())
    }
}

pub(super) fn open<T>(directory: &Path, name: &'static str) -> Result<T, KernelError>
where
    T: TryFrom<Map, Error = MapError>,
{
    MapData::from_pin(directory.join(name))
        .and_then(Map::from_map_data)
        .and_then(T::try_from)
        .map_err(KernelError::map("open", name))
}

pub(super) fn get<T>(
    map: &Array<MapData, Value<T>>,
    name: &'static str,
    index: u32,
) -> Result<T, KernelError>
where
    Value<T>: aya::Pod,
{
    map.get(&index, 0)
        .map(|value| value.0)
        .map_err(KernelError::map("read", name))
}

pub(super) fn set<T>(
    map: &mut Array<MapData, Value<T>>,
    name: &'static str,
    index: u32,
    value: T,
) -> Result<(), KernelError>
where
    Value<T>: aya::Pod,
{
    map.set(index, Value(value), 0)
        .map_err(KernelError::map("write", name))
}
