//! Nodes with VXLAN between them, and traffic through it.
//!
//! Each node's `vx0` has 10.99.0.`index`. Neighbours and forwarding entries are fixed and IPv6 is off,
//! so that nothing but tunnel packets goes over the links, unless somebody sends it.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;

use crate::command::run;
use crate::{Cluster, Node};

/// Bytes that are written at once.
const CHUNK: usize = 1 << 16;
/// Where packets go that nobody wants.
const PORT: u16 = 4000;

/// Nodes with VXLAN between all of them.
#[derive(Debug)]
pub struct Overlay {
    cluster: Cluster,
}

impl Overlay {
    /// Makes `count` nodes, without agents.
    ///
    /// # Errors
    /// As [`Cluster::new`], or the kernel has no VXLAN.
    pub fn new(purpose: &str, count: u8) -> Result<Self> {
        let cluster = Cluster::new(purpose, count)?;
        let nodes = cluster.nodes().iter().map(Node::netns);
        for netns in nodes.chain([cluster.hub()]) {
            let off = "net.ipv6.conf.all.disable_ipv6=1";
            run(netns.command("sysctl").args(["-qw", off]))?;
        }
        let overlay = Self { cluster };
        for index in 1..=count {
            overlay.add_vxlan(index, count)?;
        }
        Ok(overlay)
    }

    /// The nodes.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Node `n<index>`.
    pub fn node(&self, index: u8) -> &Node {
        self.cluster.node(index)
    }

    fn add_vxlan(&self, index: u8, count: u8) -> Result<()> {
        let (netns, local) = (self.node(index).netns(), self.node(index).ipv4());
        let mut lines = format!(
            "link add vx0 address {} type vxlan id 42 dstport 4789 local {local} dev eth0 nolearning\n\
             address add {}/24 dev vx0\n\
             link set vx0 up\n",
            mac(index),
            address(index),
        );
        let others = (1..=count).filter(|other| *other != index);
        for other in others.clone() {
            let (underlay, ether) = (self.node(other).ipv4(), self.ether(other)?);
            // Writing to a string cannot fail.
            let _ = write!(
                lines,
                "neigh replace {underlay} lladdr {ether} dev eth0 nud permanent\n\
                 neigh replace {} lladdr {} dev vx0 nud permanent\n",
                address(other),
                mac(other)
            );
        }
        netns.ip_batch(&lines)?;
        for other in others {
            let (mac, underlay) = (mac(other), self.node(other).ipv4().to_string());
            let entry = ["fdb", "append", &mac, "dev", "vx0", "dst", &underlay];
            run(netns.command("bridge").args(entry))?;
        }
        Ok(())
    }

    /// The link-layer address of a node's `eth0`.
    fn ether(&self, index: u8) -> Result<String> {
        let link: Value = serde_json::from_str(&self.node(index).netns().ip("-j link show eth0")?)?;
        let ether = link[0]["address"].as_str();
        Ok(ether.context("eth0 has no address")?.to_owned())
    }

    /// Switches off what lets large packets leave and arrive as one.
    ///
    /// # Errors
    /// `ethtool` fails.
    pub fn without_offloads(&self, index: u8) -> Result<()> {
        let off = ["-K", "eth0", "tso", "off", "gso", "off", "gro", "off"];
        let netns = self.node(index).netns();
        run(netns.command("ethtool").args(off)).map(drop)
    }

    /// Has large packets to a node, and only these, cut up just before they get there.
    ///
    /// # Errors
    /// `ethtool` fails.
    pub fn segment_on_the_way_to(&self, index: u8) -> Result<()> {
        let port = self.node(index).port();
        let off = ["-K", &port, "tso", "off", "gso", "off"];
        run(self.cluster.hub().command("ethtool").args(off))?;
        let netns = self.node(index).netns();
        run(netns.command("ethtool").args(["-K", "eth0", "gro", "off"])).map(drop)
    }

    /// A socket on a node's address in the overlay, for [`Self::packets`] and the like.
    ///
    /// # Errors
    /// It cannot be bound.
    pub fn socket(&self, index: u8) -> Result<UdpSocket> {
        let bind = move || UdpSocket::bind((address(index), PORT));
        Ok(self.node(index).netns().enter(bind)??)
    }

    /// Sends `count` packets of 1000 bytes through the tunnel.
    ///
    /// # Errors
    /// A socket fails.
    pub fn packets(&self, from: u8, to: u8, count: u32) -> Result<()> {
        // Nobody answers that the port is closed.
        let (sender, _receiver) = (self.socket(from)?, self.socket(to)?);
        for _ in 0..count {
            sender.send_to(&[7; 1000], destination(to))?;
        }
        Ok(())
    }

    /// Sends so many bytes through the tunnel over TCP, and waits until all have arrived.
    ///
    /// # Errors
    /// A socket fails, or not all arrive.
    pub fn stream(&self, from: u8, to: u8, bytes: usize) -> Result<()> {
        let (mut stream, receiver) = self.connect(from, to)?;
        stream.write_all(&vec![7; bytes])?;
        drop(stream);
        let received = finish(receiver)?;
        ensure!(
            received == bytes as u64,
            "{received} of {bytes} bytes have arrived"
        );
        Ok(())
    }

    /// Bytes a second over one TCP connection through the tunnel.
    ///
    /// # Errors
    /// A socket fails.
    pub fn throughput(&self, from: u8, to: u8, duration: Duration) -> Result<f64> {
        let (mut stream, receiver) = self.connect(from, to)?;
        let (begun, chunk) = (Instant::now(), vec![7; CHUNK]);
        while begun.elapsed() < duration {
            stream.write_all(&chunk)?;
        }
        drop(stream);
        let received = finish(receiver)?;
        Ok(received as f64 / begun.elapsed().as_secs_f64())
    }

    /// A connection through the tunnel, and how many bytes its end receives.
    fn connect(&self, from: u8, to: u8) -> Result<(TcpStream, JoinHandle<std::io::Result<u64>>)> {
        let listen = move || TcpListener::bind((address(to), 0));
        let listener = self.node(to).netns().enter(listen)??;
        let server = listener.local_addr()?;
        let receive = move || {
            let (mut stream, _) = listener.accept()?;
            let (mut received, mut buffer) = (0, vec![0; CHUNK]);
            loop {
                match stream.read(&mut buffer)? {
                    0 => return Ok(received),
                    more => received += more as u64,
                }
            }
        };
        let receiver = thread::spawn(receive);
        let connect = move || TcpStream::connect(server);
        Ok((self.node(from).netns().enter(connect)??, receiver))
    }
}

fn finish(receiver: JoinHandle<std::io::Result<u64>>) -> Result<u64> {
    let received = receiver
        .join()
        .map_err(|_| anyhow!("the receiver panicked"))?;
    received.context("receive")
}

/// A node's address in the overlay.
pub fn address(index: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 99, 0, index)
}

/// Where [`Overlay::socket`] of a node receives.
pub fn destination(index: u8) -> (IpAddr, u16) {
    (address(index).into(), PORT)
}

fn mac(index: u8) -> String {
    format!("02:99:00:00:00:{index:02x}")
}
