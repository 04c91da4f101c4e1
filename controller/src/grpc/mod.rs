//! The gRPC interface: what the controller knows of nodes, for programs that act on it.
//!
//! [`node_health`] answers from the board and from the register of consumers, as the HTTP
//! interface does. Nothing is decided here.

mod node_health;
mod server;
mod services;

pub use server::{Bound, GrpcError};

/// Messages and services, generated from `proto/health.proto`.
#[expect(
    missing_docs,
    clippy::all,
    clippy::allow_attributes,
    reason = "generated; the proto file has the comments"
)]
pub mod proto {
    tonic::include_proto!("pulsepath.health.v1");

    /// What server reflection tells of them.
    pub(super) const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/health.binpb"));
}

#[cfg(test)]
mod tests;
