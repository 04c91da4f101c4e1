//! The control channel, over which a controller tells a node's agent what to hold.
//!
//! [`proto`] is what travels; everyone else deals in plain types: [`Push`], [`Report`], and those of
//! [`crate::egress`]. Both sides' TLS is here, and that of the agent's other servers; what a
//! controller needs besides is in its own crate.

pub(crate) mod accept;
mod identity;
mod kept;
mod message;
mod server;
mod service;
mod settings;
mod tls;

pub use identity::Identity;
pub use kept::{Kept, KeptFile, KeptFileError};
pub use message::{
    AskReport, Duty, Heard, KeyPush, Malformed, Push, Question, Report, Watched, WitnessReport,
};
pub use server::{Bound, Security, ServeError};
pub use service::{Node, Refusal};
pub use settings::SecurityChoice;
pub use tls::{CertFiles, Credentials, ServerCertificate, TlsError, TlsFiles};

/// Messages and services, generated from `proto/agent.proto`.
#[expect(
    missing_docs,
    clippy::all,
    clippy::allow_attributes,
    reason = "generated; the proto file has the comments"
)]
pub mod proto {
    tonic::include_proto!("pulsepath.agent.v1");
}
