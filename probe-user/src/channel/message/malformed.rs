//! What is wrong with a message.

use std::net::IpAddr;

use probe_ebpf::maps::MAX_WITNESSES;

use crate::keys::MalformedKey;

/// What is wrong with a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Not an address.
    #[error("{text:?} is not an IP address")]
    Address {
        /// What was received.
        text: String,
    },
    /// Not a prefix.
    #[error("egress IP {address}: source {text:?} is not a prefix such as \"10.1.0.0/16\"")]
    Source {
        /// The egress IP.
        address: IpAddr,
        /// What was received.
        text: String,
    },
    /// Not a prefix.
    #[error("gateway {gateway}: {text:?} is not a prefix such as \"10.1.0.0/16\"")]
    Prefix {
        /// The gateway.
        gateway: String,
        /// What was received.
        text: String,
    },
    /// A claim that this version does not know.
    #[error("egress IP {address}: claim {claim} is not known")]
    Claim {
        /// The egress IP.
        address: IpAddr,
        /// What was received.
        claim: i32,
    },
    /// One address twice in a message.
    #[error("address {address} is listed twice")]
    Twice {
        /// The address.
        address: IpAddr,
    },
    /// A state that this version does not know.
    #[error("address {address}: state {state} is not known")]
    State {
        /// The address.
        address: IpAddr,
        /// What was received.
        state: i32,
    },
    /// Not a link-layer address.
    #[error("address {address}: a link-layer address has 6 bytes, not {len}")]
    Mac {
        /// The address.
        address: IpAddr,
        /// Bytes received.
        len: usize,
    },
    /// A key id beyond 65535.
    #[error("probe key: id {id} is above 65535")]
    KeyId {
        /// What was received.
        id: u32,
    },
    /// A key of the wrong size.
    #[error("probe key {id}: a key has 16 bytes, not {len}")]
    KeyLength {
        /// Which key.
        id: u16,
        /// Bytes received.
        len: usize,
    },
    /// A witness set in which no majority can be told.
    #[error("witnesses {instances:x?}: at most {MAX_WITNESSES}, none 0, none twice")]
    Witnesses {
        /// What was received.
        instances: Vec<u64>,
    },
    /// No keys, or too many.
    #[error("keys of node {node:?}")]
    Keys {
        /// The node.
        node: String,
        /// What is wrong with them.
        source: MalformedKey,
    },
    /// One node twice in a message.
    #[error("node {node:?} is listed twice")]
    NodeTwice {
        /// The node.
        node: String,
    },
    /// A number out of its range.
    #[error("{field} {value} is not within {range}")]
    Range {
        /// The field's name.
        field: &'static str,
        /// What was received.
        value: u32,
        /// What is accepted.
        range: &'static str,
    },
    /// An encapsulation that this version does not know.
    #[error("tunnel to {address}: encapsulation {encapsulation} is not known")]
    Encapsulation {
        /// The tunnel's other end.
        address: IpAddr,
        /// What was received.
        encapsulation: i32,
    },
    /// A field that has to be there is not.
    #[error("{field} is missing")]
    Missing {
        /// The field's name.
        field: &'static str,
    },
}
