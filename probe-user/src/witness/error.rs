//! Why a witness does not do what it is told.

use std::error::Error;

use crate::session::TargetError;

/// Why a duty is refused.
#[derive(Debug, thiserror::Error)]
pub enum DutyError {
    /// The agent has nowhere to keep floors.
    #[error(
        "without kernel programs this node cannot be a witness: it could not keep its promises"
    )]
    NoMemory,
    /// Another witness is meant.
    #[error("this is witness {instance:016x}, not {meant:016x}")]
    OtherInstance {
        /// Which one.
        meant: u64,
        /// Which one this is.
        instance: u64,
    },
    /// The witness has been told a newer one.
    #[error("duty {version} is older than {present}, which this witness has taken on")]
    Older {
        /// The version of the duty that was refused.
        version: u64,
        /// The version in force.
        present: u64,
    },
    /// A node has no say in its own lease.
    #[error("node {node:?} cannot be its own witness")]
    Itself {
        /// The node.
        node: String,
    },
    /// A floor could not be stored. Others may have been.
    #[error("the floor of node {node:?} cannot be stored")]
    NotStored {
        /// The node.
        node: String,
        /// Why not.
        source: Box<dyn Error + Send + Sync>,
    },
}

/// Why a question is not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// A node always hears itself.
    #[error("node {node:?} cannot say whether others hear it")]
    Itself {
        /// The node.
        node: String,
    },
    /// It cannot be probed.
    #[error("node {node:?} cannot be probed")]
    NotProbed {
        /// The node.
        node: String,
        /// Why not.
        source: TargetError,
    },
    /// Other nodes are probed at another port.
    #[error("probes go to port {present} here, not {port}")]
    OtherPort {
        /// The port that was asked for.
        port: u16,
        /// The port in use.
        present: u16,
    },
}
