//! The tunnel counters as user space sees them: what they have counted, and on which devices they
//! are.
//!
//! [`Tunnels`] reads what has been counted; it needs the pins only. [`Kernel::count_tunnels`] puts
//! the programs on devices: on TCX behind the fence, which drops what does not leave; where the
//! reflector runs in native XDP, what is received is counted there.
//!
//! [`Kernel::count_tunnels`]: super::Kernel::count_tunnels

mod counts;
mod devices;

use std::fmt;

use serde::Serialize;

pub use counts::{Peer, Traffic, Tunnels};

/// Where on a device tunnels are counted.
#[derive(Clone, Copy, Debug, Serialize, PartialEq, Eq, Hash)]
#[serde(rename_all = "lowercase")]
pub enum TunnelHook {
    /// In the reflector's native XDP program.
    Native,
    /// TCX.
    Tcx,
    /// A filter of the clsact queueing discipline.
    Clsact,
}

impl fmt::Display for TunnelHook {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Native => "native XDP",
            Self::Tcx => "TCX",
            Self::Clsact => "clsact filter",
        })
    }
}

/// Tunnels are counted on a device.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct Counted {
    /// The device's name.
    pub device: String,
    /// Its index.
    pub interface_index: u32,
    /// Where what is received is counted.
    pub received: TunnelHook,
    /// Where what is sent is counted.
    pub sent: TunnelHook,
}

/// Tunnels are not counted on a device.
#[derive(Clone, Debug, Serialize, PartialEq, Eq, thiserror::Error)]
#[error("tunnels on {device} are not counted: {reason}")]
pub struct NotCounted {
    /// The device's name.
    pub device: String,
    /// Why not, in words.
    pub reason: String,
}
