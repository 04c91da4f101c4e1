//! One node of a cluster, and the daemons in it.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use probe_user::keys::ClusterKeys;

use crate::command::program;
use crate::http::{self, Response};
use crate::{Netns, Process};

/// The agent's HTTP port.
pub const AGENT_HTTP: u16 = 9863;
/// The controller's HTTP port.
pub const CONTROLLER_HTTP: u16 = 9865;

/// One node: a namespace with `lo` and `eth0`.
#[derive(Debug)]
pub struct Node {
    index: u8,
    netns: Netns,
    pin_dir: PathBuf,
    files: PathBuf,
}

impl Node {
    pub(crate) fn new(
        purpose: &str,
        index: u8,
        hub: &Netns,
        pins: &Path,
        files: &Path,
        keys: &ClusterKeys,
    ) -> Result<Self> {
        let netns = Netns::new(&format!("{purpose}-n{index}"))?;
        let pin_dir = pins.join(format!("n{index}"));
        let node = Self {
            index,
            netns,
            pin_dir,
            files: files.to_owned(),
        };
        keys.node_keys(&node.name()).write_new(node.key_file())?;
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

    /// Its number, from 1.
    pub fn index(&self) -> u8 {
        self.index
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

    /// The file of its key.
    pub fn key_file(&self) -> PathBuf {
        self.files.join(format!("{}.key", self.name()))
    }

    /// The file of what its agent was told.
    pub fn agent_state_file(&self) -> PathBuf {
        self.files.join(format!("{}-agent.json", self.name()))
    }

    /// Makes a directory of the node's own among the cluster's files, if it is not there.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn directory(&self, purpose: &str) -> Result<PathBuf> {
        let path = self.files.join(format!("{}-{purpose}", self.name()));
        fs::create_dir_all(&path).with_context(|| format!("make {}", path.display()))?;
        Ok(path)
    }

    /// Its agent's configuration (TOML): name, key, pins, `eth0` as management interface, and
    /// `settings`, which may be any top-level keys, dotted ones such as `beat.period` included.
    pub fn agent_config(&self, settings: &str) -> String {
        format!(
            "node = \"{}\"\npin_dir = {:?}\nkey_file = {:?}\nmanagement.interface = \"eth0\"\n\
             egress.state_file = {:?}\n{settings}\n",
            self.name(),
            self.pin_dir,
            self.key_file(),
            self.agent_state_file(),
        )
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

    /// Posts nothing to the controller on this node, from inside the node.
    ///
    /// # Errors
    /// As [`http::post`].
    pub fn controller_post(&self, path: &str) -> Result<Response> {
        let server = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), CONTROLLER_HTTP);
        http::post(&self.netns, server, path)
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
