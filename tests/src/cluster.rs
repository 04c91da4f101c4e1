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
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::command::{program, run};
use crate::http::{self, Response};
use crate::leftovers::BPFFS;
use crate::{Netns, Process, unique};

/// The agent's HTTP port.
pub const AGENT_HTTP: u16 = 9863;
/// The controller's HTTP port.
pub const CONTROLLER_HTTP: u16 = 9865;

/// The filter program "return TC_ACT_SHOT": unlike `matchall` with `action drop`, it needs no
/// module that a small kernel lacks.
const DROP: &str = "1,6 0 0 2,";

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
    hub: Netns,
    pins: PinDir,
    files: TempDir,
}

impl Cluster {
    /// Makes `count` nodes (1 to 200), named `n1` and so on.
    ///
    /// # Errors
    /// Not root, no bpffs at `/sys/fs/bpf`, or `ip` fails.
    pub fn new(purpose: &str, count: u8) -> Result<Self> {
        ensure!((1..=200).contains(&count), "1 to 200 nodes, not {count}");
        let hub = Netns::new(&format!("{purpose}-hub"))?;
        hub.ip_batch(
            "link add br0 type bridge forward_delay 0 mcast_snooping 0\n\
             address add 10.77.0.254/24 dev br0\n\
             address add fd77::fe/64 dev br0 nodad\n\
             link set br0 up\n",
        )?;
        let pins = PinDir::new(purpose)?;
        let files = tempfile::Builder::new().prefix(unique::PREFIX).tempdir()?;
        let nodes = (1..=count)
            .map(|index| Node::new(purpose, index, &hub, &pins.0, files.path()))
            .collect::<Result<_>>()?;
        Ok(Self {
            nodes,
            hub,
            pins,
            files,
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

    /// The directory of the cluster's files: keys, configurations, logs, state.
    pub fn files(&self) -> &Path {
        self.files.path()
    }

    /// The directory of all nodes' pin directories.
    pub fn pins(&self) -> &Path {
        &self.pins.0
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

    /// Drops every packet of one direction of node `index`'s link.
    ///
    /// # Errors
    /// `tc` fails.
    pub fn drop_packets(&self, index: u8, direction: Direction) -> Result<()> {
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
            DROP,
        ])
    }

    /// Ends what [`Self::drop_packets`] began, in both directions.
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

/// One node: a namespace with `lo` and `eth0`.
#[derive(Debug)]
pub struct Node {
    index: u8,
    netns: Netns,
    pin_dir: PathBuf,
    files: PathBuf,
}

impl Node {
    fn new(purpose: &str, index: u8, hub: &Netns, pins: &Path, files: &Path) -> Result<Self> {
        let netns = Netns::new(&format!("{purpose}-n{index}"))?;
        let pin_dir = pins.join(format!("n{index}"));
        let node = Self {
            index,
            netns,
            pin_dir,
            files: files.to_owned(),
        };
        let port = node.port();
        hub.ip_batch(&format!(
            "link add {port} type veth peer name eth0 netns {}\n\
             link set {port} master br0 up\n",
            node.netns.name()
        ))?;
        node.netns.ip_batch(&format!(
            "address add {}/24 dev eth0\n\
             address add {}/64 dev eth0 nodad\n\
             link set eth0 up\n",
            node.ipv4(),
            node.ipv6()
        ))?;
        Ok(node)
    }

    /// Its name: `n<index>`.
    pub fn name(&self) -> String {
        format!("n{}", self.index)
    }

    /// The hub's end of its link. It bears the node's name.
    pub fn port(&self) -> String {
        self.name()
    }

    /// Its namespace.
    pub fn netns(&self) -> &Netns {
        &self.netns
    }

    /// Where its agent is to pin. The agent makes the directory.
    pub fn pin_dir(&self) -> &Path {
        &self.pin_dir
    }

    /// Its IPv4 address on `eth0`.
    pub fn ipv4(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, 0, self.index)
    }

    /// Its IPv6 address on `eth0`.
    pub fn ipv6(&self) -> Ipv6Addr {
        Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, self.index.into())
    }

    /// Starts one of the project's programs inside, its output going to
    /// `<node>-<program>.log`.
    ///
    /// # Errors
    /// The program is not built or cannot be started.
    pub fn spawn<S: AsRef<std::ffi::OsStr>>(
        &self,
        name: &str,
        arguments: impl IntoIterator<Item = S>,
    ) -> Result<Process> {
        let mut command = self.netns.command(program(name)?);
        command.args(arguments);
        let label = format!("{}-{name}", self.name());
        Process::spawn(&label, &command, &self.files.join(format!("{label}.log")))
    }

    /// Starts `pulsepath-agent run` with `config` (TOML).
    ///
    /// # Errors
    /// As [`Self::spawn`], or the file cannot be written.
    pub fn spawn_agent(&self, config: &str) -> Result<Process> {
        self.spawn_daemon("pulsepath-agent", config)
    }

    /// Starts `pulsepath-controller run` with `config` (TOML).
    ///
    /// # Errors
    /// As [`Self::spawn`], or the file cannot be written.
    pub fn spawn_controller(&self, config: &str) -> Result<Process> {
        self.spawn_daemon("pulsepath-controller", config)
    }

    fn spawn_daemon(&self, name: &str, config: &str) -> Result<Process> {
        let file = self.config_file(name);
        fs::write(&file, config).with_context(|| format!("write {}", file.display()))?;
        self.spawn(
            name,
            ["run".as_ref(), "--config".as_ref(), file.as_os_str()],
        )
    }

    /// The configuration file of the daemon `name` of this node.
    pub fn config_file(&self, name: &str) -> PathBuf {
        self.files.join(format!("{}-{name}.toml", self.name()))
    }

    /// Asks the node's agent over HTTP, from inside the node.
    ///
    /// # Errors
    /// As [`http::get`].
    pub fn agent_http(&self, path: &str) -> Result<Response> {
        self.http(AGENT_HTTP, path)
    }

    /// Asks the controller on this node over HTTP, from inside the node.
    ///
    /// # Errors
    /// As [`http::get`].
    pub fn controller_http(&self, path: &str) -> Result<Response> {
        self.http(CONTROLLER_HTTP, path)
    }

    /// Asks whoever listens on `port` of the node's loopback address.
    ///
    /// # Errors
    /// As [`http::get`].
    pub fn http(&self, port: u16, path: &str) -> Result<Response> {
        let server = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        http::get(&self.netns, server, path)
    }
}

/// A directory of pin directories below bpffs, removed on drop with all that is in it.
#[derive(Debug)]
struct PinDir(PathBuf);

impl PinDir {
    fn new(purpose: &str) -> Result<Self> {
        let dir = Path::new(BPFFS).join(unique::name(purpose));
        // Elsewhere than on bpffs the directory would be made, too, and every pin would fail.
        let mounts = fs::read_to_string("/proc/mounts").context("read /proc/mounts")?;
        ensure!(
            mounts
                .lines()
                .any(|line| line.split(' ').nth(1) == Some(BPFFS)),
            "no bpffs at {BPFFS}: run `cargo xtask setup`, or `mount -t bpf bpf {BPFFS}`"
        );
        fs::create_dir(&dir).with_context(|| format!("create {}", dir.display()))?;
        Ok(Self(dir))
    }
}

impl Drop for PinDir {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("pins in {} stay behind: {error}", self.0.display());
        }
    }
}
