//! Bytes on the wire: the authenticated probe, its plain STAMP base packet (RFC 8762), and S-BFD
//! (RFC 7880, RFC 7881).

pub mod ntp;
pub mod probe;
pub mod sbfd;
pub mod stamp;
mod word;

use crate::siphash::{self, SipKey};

/// UDP port on which the reflector answers STAMP unless configured otherwise (RFC 8762).
pub const PROBE_PORT: u16 = 862;
/// UDP port of S-BFD (RFC 7881).
pub const SBFD_PORT: u16 = 7784;

/// What names a node in probes: a hash of its name under a fixed, public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u64);

impl NodeId {
    const KEY: SipKey = SipKey::from_bytes(b"pulsepath.nodeid");

    /// The id of the node with this name.
    pub fn of(name: &str) -> Self {
        Self(siphash::hash_bytes(&Self::KEY, name.as_bytes()))
    }
}
