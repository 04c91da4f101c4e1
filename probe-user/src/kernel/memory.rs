//! What this node must never forget as a witness.

use std::collections::BTreeMap;
use std::path::Path;

use aya::maps::{HashMap, MapData, MapError};
use nix::libc;
use probe_ebpf::maps::{MAX_WATCHED, StoredFloor, WatchedNode};
use probe_ebpf::wire::NodeId;

use super::cause::os_error;
use super::error::KernelError;
use super::maps::{self, WITNESS_MEMORY};
use super::value::Value;

type Floors = HashMap<MapData, Value<WatchedNode>, Value<StoredFloor>>;

/// The floors that a witness has stored, and which witness that is. They outlive the agent, and end
/// with everything else that a reboot or `detach` takes: then the node is another witness.
pub struct WitnessMemory {
    map: Floors,
    instance: u64,
    floors: BTreeMap<u64, u64>,
    is_new: bool,
}

impl WitnessMemory {
    /// Opens the map that is pinned in `directory`, and makes `own` a new witness where it is none yet.
    ///
    /// # Errors
    /// The map cannot be read or written, or there are no random numbers.
    pub fn open(directory: &Path, own: NodeId) -> Result<Self, KernelError> {
        let (map, Stored { instance, floors }) = look(directory, own)?;
        let is_new = instance == 0;
        let mut memory = Self {
            map,
            instance,
            floors,
            is_new,
        };
        if is_new {
            memory.begin(own)?;
        }
        Ok(memory)
    }

    /// The witness's instance id, never 0.
    pub const fn instance(&self) -> u64 {
        self.instance
    }

    /// Whether it has become a witness just now.
    pub const fn is_new(&self) -> bool {
        self.is_new
    }

    /// The floor that is stored for a node; 0: none.
    pub fn floor(&self, node: NodeId) -> u64 {
        self.floors.get(&node.0).copied().unwrap_or(0)
    }

    /// Stores a floor, unless a higher one is stored. Once it returns, no end of the agent undoes it.
    ///
    /// # Errors
    /// The map is full: [`MAX_WATCHED`] nodes at most since the witness began.
    pub fn raise(&mut self, node: NodeId, floor: u64) -> Result<(), KernelError> {
        if floor <= self.floor(node) {
            return Ok(());
        }
        self.write(node.0, floor)?;
        self.floors.insert(node.0, floor);
        Ok(())
    }

    /// The entry that says which witness this is comes last, so that whoever is killed half-way is
    /// followed by one that begins again.
    fn begin(&mut self, own: NodeId) -> Result<(), KernelError> {
        let keys = self.map.keys().collect::<Result<Vec<_>, _>>();
        for key in keys.map_err(KernelError::map("read", WITNESS_MEMORY))? {
            match self.map.remove(&key) {
                Ok(()) | Err(MapError::KeyNotFound) => {}
                Err(error) => return Err(KernelError::map("write", WITNESS_MEMORY)(error)),
            }
        }
        let random = getrandom::u64().map_err(|error| KernelError::Map {
            action: "choose an instance for",
            map: WITNESS_MEMORY,
            source: MapError::IoError(error.into()),
        })?;
        self.instance = random.max(1);
        self.write(own.0, 0)
    }

    fn write(&mut self, node_id: u64, floor: u64) -> Result<(), KernelError> {
        let instance = self.instance;
        let key = Value(WatchedNode { node_id });
        match self
            .map
            .insert(key, Value(StoredFloor { instance, floor }), 0)
        {
            Err(error) if os_error(&error) == Some(libc::E2BIG) => {
                Err(KernelError::MemoryFull { nodes: MAX_WATCHED })
            }
            result => result.map_err(KernelError::map("write", WITNESS_MEMORY)),
        }
    }
}

/// What a witness has stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// The witness's instance id; 0: the node has never been one.
    pub instance: u64,
    /// By node id.
    pub floors: BTreeMap<u64, u64>,
}

impl Stored {
    /// Reads what is stored by the witness `own`, without making it one.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn read(directory: &Path, own: NodeId) -> Result<Self, KernelError> {
        look(directory, own).map(|(_, stored)| stored)
    }
}

fn look(directory: &Path, own: NodeId) -> Result<(Floors, Stored), KernelError> {
    maps::check_pinned(directory)?;
    let map: Floors = maps::open(directory, WITNESS_MEMORY)?;
    let entries = map.iter().collect::<Result<Vec<_>, _>>();
    let entries = entries.map_err(KernelError::map("read", WITNESS_MEMORY))?;
    let is_own = |(key, _): &&(Value<WatchedNode>, _)| key.0.node_id == own.0;
    let instance = entries.iter().find(is_own).map_or(0, |it| it.1.0.instance);
    let others = entries.into_iter().filter(|it| !is_own(&it));
    let floors = others
        .filter(|(_, stored)| stored.0.instance == instance)
        .map(|(key, stored)| (key.0.node_id, stored.0.floor));
    let floors = floors.collect();
    Ok((map, Stored { instance, floors }))
}
