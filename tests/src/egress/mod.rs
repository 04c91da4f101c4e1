//! What lies behind a cluster's gateways: an external segment with a client and a server.
//!
//! ```text
//!   outside namespace: bridge br0, the server 10.78.0.254, fd78::fe
//!     port n1     port n2   ...      port client        veth pairs
//!       |           |                   |
//!     ext0        ext0                eth0
//!   node n1     node n2             client 10.99.0.2, fd99::2
//!  10.78.0.1   10.78.0.2            10.78.0.254 via the egress IP 10.78.0.100
//!  fd78::1     fd78::2              fd78::fe    via the egress IP fd78::100
//! ```
//!
//! The client's next hop is the egress IP itself: like any neighbour it finds the owner by ARP or
//! ND, and follows it when the new owner announces itself. Nothing at the client changes when it
//! moves.

mod answers;
mod connection;
mod recorder;
mod scene;
mod stream;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::Result;

pub use self::answers::Gap;
pub use self::connection::Connection;
pub use self::recorder::{Claim, Recorder, Use, overlap};
pub use self::scene::{PATIENCE, Scene, Setup};
pub use self::stream::{Stream, StreamReport};
use crate::command::run;
use crate::{Cluster, LinkState, Netns};

/// The egress IP that the client's IPv4 packets go through.
pub const EGRESS_IP: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 100);
/// The egress IP that the client's IPv6 packets go through.
pub const EGRESS_IPV6: Ipv6Addr = Ipv6Addr::new(0xfd78, 0, 0, 0, 0, 0, 0, 0x100);
/// Where clients come from.
pub const CLIENTS: &str = "10.99.0.0/24";
/// Where clients come from by IPv6.
pub const CLIENTS_IPV6: &str = "fd99::/64";

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);
const CLIENT_IPV6: Ipv6Addr = Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, 2);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 254);
const SERVER_IPV6: Ipv6Addr = Ipv6Addr::new(0xfd78, 0, 0, 0, 0, 0, 0, 0xfe);

/// By which protocol the client talks to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Through [`EGRESS_IP`].
    Ipv4,
    /// Through [`EGRESS_IPV6`].
    Ipv6,
}

impl Family {
    /// The server, any port.
    const fn server(self) -> SocketAddr {
        any_port(match self {
            Self::Ipv4 => IpAddr::V4(SERVER),
            Self::Ipv6 => IpAddr::V6(SERVER_IPV6),
        })
    }

    /// The client, any port.
    const fn client(self) -> SocketAddr {
        any_port(match self {
            Self::Ipv4 => IpAddr::V4(CLIENT),
            Self::Ipv6 => IpAddr::V6(CLIENT_IPV6),
        })
    }
}

/// An address for a socket that the system chooses the port of.
const fn any_port(address: IpAddr) -> SocketAddr {
    SocketAddr::new(address, 0)
}

/// Interface index of the bridge's ports, beyond any that a node has.
const FIRST_PORT: u32 = 1000;

/// The external segment of a [`Cluster`].
#[derive(Debug)]
pub struct External {
    outside: Netns,
    client: Netns,
}

impl External {
    /// Gives every node of `cluster` an interface `ext0` on a new segment.
    ///
    /// # Errors
    /// `ip` or `sysctl` fails.
    pub fn new(purpose: &str, cluster: &Cluster) -> Result<Self> {
        let outside = Netns::new(&format!("{purpose}-out"))?;
        let client = Netns::new(&format!("{purpose}-client"))?;
        outside.ip_batch(&format!(
            "link add br0 type bridge forward_delay 0 mcast_snooping 0\n\
             address add {SERVER}/24 dev br0\n\
             address add {SERVER_IPV6}/64 dev br0 nodad\n\
             link set br0 up\n"
        ))?;
        for (index, node) in (1u8..).zip(cluster.nodes()) {
            plug(&outside, &node.port(), index, node.netns(), "ext0")?;
            connect_node(node.netns(), index)?;
        }
        plug(&outside, "client", 0, &client, "eth0")?;
        connect_client(&client)?;
        Ok(Self { outside, client })
    }

    /// Cuts the external link of node `index`, or mends it.
    ///
    /// # Errors
    /// `ip` fails.
    pub fn set_link(&self, index: u8, state: LinkState) -> Result<()> {
        self.outside
            .ip(&format!("link set n{index} {state}"))
            .map(drop)
    }

    /// The namespace of the bridge and the server.
    pub fn outside(&self) -> &Netns {
        &self.outside
    }

    /// The namespace of the client.
    pub fn client(&self) -> &Netns {
        &self.client
    }
}

/// Connects `interface` of `netns` to the bridge.
fn plug(outside: &Netns, port: &str, number: u8, netns: &Netns, interface: &str) -> Result<()> {
    // Were the indices of both ends the same, however far apart their namespaces are, the kernel
    // would let the bridge know up to a second late that a link is up again
    // (linkwatch_urgent_event).
    let index = FIRST_PORT + u32::from(number);
    outside.ip_batch(&format!(
        "link add {port} index {index} type veth peer name {interface} netns {}\n\
         link set {port} master br0 up\n",
        netns.name()
    ))
}

/// Makes node `index` a router between client and server; steering is somebody else's.
fn connect_node(node: &Netns, index: u8) -> Result<()> {
    sysctl(
        node,
        &[
            // An agent sees to IPv4's itself, and only checks this one.
            "net.ipv6.conf.all.forwarding=1",
            // The client is no neighbour of the server, however near it is: no redirects.
            "net.ipv4.conf.all.send_redirects=0",
            "net.ipv4.conf.ext0.send_redirects=0",
        ],
    )?;
    node.ip_batch(&format!(
        "address add 10.78.0.{index}/24 dev ext0\n\
         address add fd78::{index}/64 dev ext0 nodad\n\
         link set ext0 up\n\
         route add {CLIENTS} dev ext0\n\
         route add {CLIENTS_IPV6} dev ext0\n"
    ))
}

fn connect_client(client: &Netns) -> Result<()> {
    // Nodes cannot be told not to send these.
    sysctl(
        client,
        &[
            "net.ipv6.conf.all.accept_redirects=0",
            "net.ipv6.conf.eth0.accept_redirects=0",
        ],
    )?;
    client.ip_batch(&format!(
        "address add {CLIENT}/32 dev eth0\n\
         address add {CLIENT_IPV6}/128 dev eth0 nodad\n\
         link set eth0 up\n\
         route add {SERVER}/32 via {EGRESS_IP} dev eth0 onlink src {CLIENT}\n\
         route add {SERVER_IPV6}/128 via {EGRESS_IPV6} dev eth0 onlink src {CLIENT_IPV6}\n"
    ))
}

fn sysctl(netns: &Netns, settings: &[&str]) -> Result<()> {
    run(netns.command("sysctl").arg("-qw").args(settings)).map(drop)
}
