//! What a witness must not forget.

use std::error::Error;

use probe_ebpf::wire::NodeId;

use crate::kernel::WitnessMemory;

/// A result of whoever keeps the memory.
pub type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Where a witness keeps its floors.
pub trait Memory: Send {
    /// Which witness this is, never 0: another one whenever floors have been lost.
    fn instance(&self) -> u64;

    /// Whether this is a witness that has never voted.
    fn is_new(&self) -> bool;

    /// The floor that is stored for a node; 0: none.
    fn floor(&self, node: NodeId) -> u64;

    /// Stores a floor, unless a higher one is stored, so that no end of this process undoes it.
    ///
    /// # Errors
    /// It is not stored.
    fn raise(&mut self, node: NodeId, floor: u64) -> Outcome<()>;
}

/// In the kernel floors outlive the agent.
impl Memory for WitnessMemory {
    fn instance(&self) -> u64 {
        self.instance()
    }

    fn is_new(&self) -> bool {
        self.is_new()
    }

    fn floor(&self, node: NodeId) -> u64 {
        self.floor(node)
    }

    fn raise(&mut self, node: NodeId, floor: u64) -> Outcome<()> {
        Ok(self.raise(node, floor)?)
    }
}
