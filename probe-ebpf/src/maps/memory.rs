//! What a witness must never forget while it is the same witness. No program reads it: it is a map
//! since maps outlive the agent, and end with everything else that a reboot takes.

/// Key of `WITNESS_MEMORY`: a node's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(C)]
pub struct WatchedNode {
    /// A node for which this one is a witness, or this one itself, whose entry says which witness it
    /// is.
    pub node_id: u64,
}

/// Value of `WITNESS_MEMORY`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C)]
pub struct StoredFloor {
    /// The witness that stored it: its instance id, never 0. What another one has stored counts for
    /// nothing.
    pub instance: u64,
    /// The witness does not vote for the node below this assignment epoch.
    pub floor: u64,
}
