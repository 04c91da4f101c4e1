//! The tunnel counters' packet logic: whose tunnel a packet belongs to, and how many packets of how
//! many bytes it is on the wire.
//!
//! [`TunnelPacket`] reads the outer headers. Nothing here decides over a packet, or changes one.
//!
//! Fragments: one that is not its packet's first carries no port, so it is counted only where the IP
//! protocol alone says that it is a tunnel's (IPIP, SIT, GRE). Of a VXLAN, Geneve or WireGuard packet
//! that is sent in fragments, the first is counted, with its own bytes.

mod packet;
mod segments;
#[cfg(test)]
mod tests;

pub use crate::headers::LinkLayer;
pub use packet::{Direction, Ports, TunnelPacket};
pub use segments::{Segments, Wire, headers};
