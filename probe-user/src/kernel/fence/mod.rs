//! The fence as user space sees it: which addresses it guards, on which devices it is in force, and
//! where it is not, and why.
//!
//! [`Fence`] reads and writes the guards; it needs the pins only, so whoever assigns addresses holds
//! one of its own. [`Kernel::fence`] puts the program on devices. Guards and devices know nothing of
//! each other: an address is guarded on every device that is fenced.
//!
//! [`Kernel::fence`]: super::Kernel::fence

mod devices;
mod guards;
mod status;

use std::fmt;

use serde::Serialize;

pub use guards::Fence;
use status::status;

/// Where on a device the fence is.
#[derive(Clone, Copy, Debug, Serialize, PartialEq, Eq, Hash)]
#[serde(rename_all = "lowercase")]
pub enum FenceHook {
    /// TCX egress, first in its chain.
    Tcx,
    /// A filter of the clsact queueing discipline, at its first priority.
    Clsact,
}

impl fmt::Display for FenceHook {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Tcx => "TCX egress",
            Self::Clsact => "clsact filter",
        })
    }
}

/// The fence is in force on a device.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct Fenced {
    /// The device's name.
    pub device: String,
    /// Its index.
    pub interface_index: u32,
    /// Where it is.
    pub hook: FenceHook,
    /// Whatever had come before it in the chain, until it was put first again just now.
    pub displaced_by: Option<String>,
}

/// The fence is not in force on a device, or packets may leave without meeting it.
#[derive(Clone, Debug, Serialize, PartialEq, Eq, thiserror::Error)]
#[error("{device} is not fenced: {reason}")]
pub struct NotFenced {
    /// The device's name.
    pub device: String,
    /// Why not, in words.
    pub reason: String,
}
