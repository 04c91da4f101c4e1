//! What can go wrong between the agent and the kernel.

use std::io;
use std::net::IpAddr;

/// Why something about the node's network could not be done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NetError {
    /// A request to route netlink failed.
    #[error("cannot {action} over rtnetlink")]
    Route {
        action: String,
        #[source]
        source: Box<rtnetlink::Error>,
    },
    /// A netlink socket could not be opened.
    #[error("cannot open a {kind} netlink socket")]
    Open {
        kind: &'static str,
        #[source]
        source: io::Error,
    },
    /// A request to netfilter failed.
    #[error("cannot {action} over nfnetlink")]
    Netfilter {
        action: String,
        #[source]
        source: io::Error,
    },
    /// A packet socket failed.
    #[error("packet socket on interface {link}: {call}")]
    Packet {
        link: u32,
        call: &'static str,
        #[source]
        source: io::Error,
    },
    /// A sysctl could not be read or set.
    #[error("sysctl {path}: cannot {action}")]
    Sysctl {
        path: String,
        action: &'static str,
        #[source]
        source: io::Error,
    },
    /// Nothing can be said for this address on this interface.
    #[error("{address} cannot be announced on interface {link}: no socket is open there")]
    NotWatched { address: IpAddr, link: u32 },
}
