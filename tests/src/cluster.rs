//! Nodes on a bridge.
//!
//! ```text
//!        hub namespace: bridge br0, 10.77.0.254, fd77::fe
//!          port n1        port n2        port n3
//!            |              |              |          veth pairs
//!          eth0           eth0           eth0
//!        node n1        node n2        node n3
//!       10.77.0.1      10.77.0.2      10.77.0.3
//!       fd77::1        fd77::2        fd77::3
//! ```
//!
//! Links are cut and packets dropped at the hub's ports, so that nothing inside a node changes:
//! setting `eth0` itself down would take its IPv6 addresses away.

use std::fmt;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, ensure};
use probe_user::keys::ClusterKeys;
use tempfile::TempDir;

use crate::command::run;
use crate::pins::PinDir;
use crate::{Netns, Node, unique};

/// The file of the cluster's key, among the cluster's files.
const CLUSTER_KEY: &str = "cluster.key";

/// The filter program "return TC_ACT_SHOT": unlike `matchall` with `action drop`, it needs no
/// module that a small kernel lacks.
const DROP: &str = "1,6 0 0 2,";

/// The filter program that does so with packets to a UDP port over IPv4 without options, and lets all
/// others pass (TC_ACT_OK).
fn drop_udp(port: u16) -> String {
    format!("8,40 0 0 12,21 0 5 2048,48 0 0 23,21 0 3 17,40 0 0 36,21 0 1 {port},6 0 0 2,6 0 0 0,")
}

/// Whether a link carries packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// It does.
    Up,
    /// It is cut: both ends lose their carrier.
    Down,
}

/// One direction of a node's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the network to the node.
    ToNode,
    /// From the node to the network.
    FromNode,
}

impl Direction {
    /// The direction as the hub's port sees it.
    fn at_port(self) -> &'static str {
        match self {
            Self::ToNode => "egress",
            Self::FromNode => "ingress",
        }
    }
}

impl fmt::Display for LinkState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Up => "up",
            Self::Down => "down",
        })
    }
}

/// Nodes on a bridge, with a directory of files and one of pins.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Node>,
    hub: Arc<Netns>,
    pins: PinDir,
    files: TempDir,
    keys: ClusterKeys,
}

impl Cluster {
    /// Makes `count` nodes (1 to 200), named `n1` and so on.
    ///
    /// # Errors
    /// Not root, no bpffs at `/sys/fs/bpf`, or `ip` fails.
    pub fn new(purpose: &str, count: u8) -> Result<Self> {
        ensure!((1..=200).contains(&count), "1 to 200 nodes, not {count}");
        let hub = Arc::new(Netns::new(&format!("{purpose}-hub"))?);
        hub.ip_batch(
            "link add br0 type bridge forward_delay 0 mcast_snooping 0\n\
             address add 10.77.0.254/24 dev br0\n\
             address add fd77::fe/64 dev br0 nodad\n\
             link set br0 up\n",
        )?;
        let pins = PinDir::new(purpose)?;
        let files = tempfile::Builder::new()
            .prefix(&unique::name(purpose))
            .rand_bytes(0)
            .tempdir()?;
        let keys = ClusterKeys::generate(1)?;
        keys.write_new(files.path().join(CLUSTER_KEY))?;
        let nodes = (1..=count)
            .map(|index| Node::new(purpose, index, &hub, pins.path(), files.path(), &keys))
            .collect::<Result<_>>()?;
        Ok(Self {
            nodes,
            hub,
            pins,
            files,
            keys,
        })
    }

    /// Node `n<index>`, counted from 1.
    ///
    /// # Panics
    /// There is no such node.
    #[track_caller]
    pub fn node(&self, index: u8) -> &Node {
        &self.nodes[usize::from(index) - 1]
    }

    /// All nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The namespace of the bridge: a neutral place to probe from.
    pub fn hub(&self) -> &Netns {
        &self.hub
    }

    /// As [`Self::hub`], for whoever is to outlive the borrow.
    pub(crate) fn shared_hub(&self) -> Arc<Netns> {
        Arc::clone(&self.hub)
    }

    /// The directory of the cluster's files: keys, configurations, logs, state.
    pub fn files(&self) -> &Path {
        self.files.path()
    }

    /// The directory of all nodes' pin directories.
    pub fn pins(&self) -> &Path {
        self.pins.path()
    }

    /// The file of the cluster's key, as a controller reads it.
    pub fn key_file(&self) -> PathBuf {
        self.files().join(CLUSTER_KEY)
    }

    /// The cluster's keys, as they were made, for a prober of the test's own.
    pub fn keys(&self) -> &ClusterKeys {
        &self.keys
    }

    /// A controller's configuration (TOML) that lists all nodes with both addresses. `settings`
    /// come before the nodes: top-level keys, dotted ones such as `http.listen` included.
    pub fn controller_config(&self, settings: &str) -> String {
        self.labelled_controller_config(settings, |_| "")
    }

    /// As [`Self::controller_config`], each node with labels: what `labels` gives of node `n<index>`
    /// is the inside of a TOML table, such as `egress = "yes"`.
    pub fn labelled_controller_config<'a>(
        &self,
        settings: &str,
        labels: impl Fn(u8) -> &'a str,
    ) -> String {
        let files = self.files();
        let mut config = format!(
            "cluster_key_file = {:?}\nstate_file = {:?}\n{settings}\n",
            self.key_file(),
            files.join("controller-state.json"),
        );
        for (index, node) in (1..).zip(&self.nodes) {
            let (name, ipv4, ipv6) = (node.name(), node.ipv4(), node.ipv6());
            let labels = labels(index);
            // Writing to a string cannot fail.
            let _ = write!(
                config,
                "\n[[nodes]]\nname = \"{name}\"\naddresses = [\"{ipv4}\", \"{ipv6}\"]\n\
                 labels = {{ {labels} }}\n"
            );
        }
        config
    }

    /// Cuts the link of node `index`, or mends it.
    ///
    /// # Errors
    /// `ip` fails.
    pub fn set_link(&self, index: u8, state: LinkState) -> Result<()> {
        self.hub
            .ip(&format!("link set {} {state}", self.node(index).port()))
            .map(drop)
    }

    /// As [`Self::set_link`], of many nodes as nearly at once as one program can do it.
    ///
    /// # Errors
    /// `ip` fails.
    pub fn set_links(&self, indices: impl IntoIterator<Item = u8>, state: LinkState) -> Result<()> {
        let line = |index| format!("link set {} {state}\n", self.node(index).port());
        self.hub
            .ip_batch(&indices.into_iter().map(line).collect::<String>())
    }

    /// Cuts the nodes of `part` off from all others and from the hub, together: they hear each other.
    ///
    /// # Errors
    /// `ip` fails.
    pub fn split(&self, part: impl IntoIterator<Item = u8>) -> Result<()> {
        let plug = |index| format!("link set {} master part\n", self.node(index).port());
        let plug: String = part.into_iter().map(plug).collect();
        self.hub.ip_batch(&format!(
            "link add part type bridge forward_delay 0 mcast_snooping 0\nlink set part up\n{plug}"
        ))
    }

    /// Ends what [`Self::split`] began.
    ///
    /// # Errors
    /// `ip` fails.
    pub fn join(&self, part: impl IntoIterator<Item = u8>) -> Result<()> {
        let plug = |index| format!("link set {} master br0\n", self.node(index).port());
        let plug: String = part.into_iter().map(plug).collect();
        self.hub.ip_batch(&format!("{plug}link delete part\n"))
    }

    /// Drops every packet of one direction of node `index`'s link.
    ///
    /// # Errors
    /// `tc` fails.
    pub fn drop_packets(&self, index: u8, direction: Direction) -> Result<()> {
        self.drop_matching(index, direction, DROP)
    }

    /// Drops those packets of one direction of node `index`'s link that go to a UDP port over IPv4.
    ///
    /// # Errors
    /// `tc` fails.
    pub fn drop_udp(&self, index: u8, direction: Direction, port: u16) -> Result<()> {
        self.drop_matching(index, direction, &drop_udp(port))
    }

    /// Drops those packets of one direction of node `index`'s link for which the classic BPF program
    /// `bytecode`, in the form that `tc` takes, returns `TC_ACT_SHOT` (2) and not `TC_ACT_OK` (0).
    ///
    /// # Errors
    /// `tc` fails.
    pub fn drop_matching(&self, index: u8, direction: Direction, bytecode: &str) -> Result<()> {
        let (port, hook) = (self.node(index).port(), direction.at_port());
        self.tc(&["qdisc", "replace", "dev", &port, "clsact"])?;
        self.tc(&[
            "filter",
            "add",
            "dev",
            &port,
            hook,
            "bpf",
            "direct-action",
            "bytecode",
            bytecode,
        ])
    }

    /// Ends what [`Self::drop_packets`] and its likes began, in both directions.
    ///
    /// # Errors
    /// `tc` fails.
    pub fn pass_packets(&self, index: u8) -> Result<()> {
        self.tc(&["qdisc", "delete", "dev", &self.node(index).port(), "clsact"])
    }

    fn tc(&self, arguments: &[&str]) -> Result<()> {
        run(self.hub.command("tc").args(arguments)).map(drop)
    }

    /// Sets the MTU of node `index`'s link, at both ends.
    ///
    /// # Errors
    /// `ip` fails.
    pub fn set_mtu(&self, index: u8, mtu: u16) -> Result<()> {
        let node = self.node(index);
        self.hub
            .ip(&format!("link set {} mtu {mtu}", node.port()))?;
        node.netns()
            .ip(&format!("link set eth0 mtu {mtu}"))
            .map(drop)
    }
}
