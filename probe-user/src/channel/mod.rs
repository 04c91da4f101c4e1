//! The control channel, over which a controller tells a node's agent what to hold.
//!
//! [`proto`] is what travels; everyone else deals in the plain types of [`message`] and of
//! [`crate::egress`].

mod message;

pub use message::{Malformed, Push, Report};

/// Messages and services, generated from `proto/agent.proto`.
#[expect(
    missing_docs,
    clippy::all,
    reason = "generated; the proto file has the comments"
)]
pub mod proto {
    tonic::include_proto!("pulsepath.agent.v1");
}
