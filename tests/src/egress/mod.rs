//! What lies behind a cluster's gateways: an external segment with a client and a server.
//!
//! ```text
//!   outside namespace: bridge br0, the server 10.78.0.254
//!     port n1     port n2   ...      port client        veth pairs
//!       |           |                   |
//!     ext0        ext0                eth0
//!   node n1     node n2             client 10.99.0.2
//!  10.78.0.1   10.78.0.2            10.78.0.254 via the egress IP 10.78.0.100
//! ```
//!
//! The client's next hop is the egress IP itself: like any neighbour it finds the owner by ARP, and
//! follows it when the new owner announces itself. Nothing at the client changes when it moves.

mod connection;
mod stream;

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use anyhow::Result;

pub use self::connection::Connection;
pub use self::stream::{Stream, StreamReport};
use crate::command::run;
use crate::{Cluster, LinkState, Netns};

/// The egress IP that the client's packets go through.
pub const EGRESS_IP: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 100);
/// Where clients come from.
pub const CLIENTS: &str = "10.99.0.0/24";
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 254);

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
             link set br0 up\n"
        ))?;
        for (index, node) in (1u8..).zip(cluster.nodes()) {
            plug(&outside, &node.port(), node.netns(), "ext0")?;
            // The client is no neighbour of the server, however near it is: no redirects.
            let sysctl = ["-qw", "net.ipv4.conf.all.send_redirects=0"];
            run(node.netns().command("sysctl").args(sysctl))?;
            node.netns().ip_batch(&format!(
                "address add 10.78.0.{index}/24 dev ext0\n\
                 link set ext0 up\n\
                 route add {CLIENTS} dev ext0\n"
            ))?;
            let sysctl = ["-qw", "net.ipv4.conf.ext0.send_redirects=0"];
            run(node.netns().command("sysctl").args(sysctl))?;
        }
        plug(&outside, "client", &client, "eth0")?;
        client.ip_batch(&format!(
            "address add {CLIENT}/32 dev eth0\n\
             link set eth0 up\n\
             route add {SERVER}/32 via {EGRESS_IP} dev eth0 onlink src {CLIENT}\n"
        ))?;
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
fn plug(outside: &Netns, port: &str, netns: &Netns, interface: &str) -> Result<()> {
    outside.ip_batch(&format!(
        "link add {port} type veth peer name {interface} netns {}\n\
         link set {port} master br0 up\n",
        netns.name()
    ))
}

/// The server's address for a socket that the system chooses the port of.
const fn any_port(address: Ipv4Addr) -> SocketAddr {
    SocketAddr::V4(SocketAddrV4::new(address, 0))
}
