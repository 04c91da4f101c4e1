//! keepalived as a contender: VRRP on the external segment, and the same NAT.
//!
//! As far as the two can be alike, they are: neither synchronises its connection tracking, and an
//! address that has moved stays where it is when the other node comes back (`nopreempt`).

use std::fs;

use anyhow::{Context, Error, Result, anyhow, ensure};
use pulsepath_tests::egress::{CLIENTS, EGRESS_IP, External, PATIENCE};
use pulsepath_tests::{Cluster, LinkState, Node, Process, run, within};

use super::client::Contender;

/// Times between two advertisements, seconds: the usual one, and a tenth of it, which only the
/// third version of the protocol has.
pub(super) const INTERVALS: [f64; 2] = [1.0, 0.1];

/// The nodes that may have the address, as with Pulsepath.
const NODES: [u8; 2] = [1, 2];
/// As many nodes as with Pulsepath, most of them idle.
const ALL_NODES: u8 = 4;

/// The processes and, below them, nodes and segments. Dropped in this order.
pub(super) struct Keepalived {
    processes: Vec<Process>,
    external: External,
    cluster: Cluster,
}

impl Keepalived {
    /// Starts it on both nodes, with `interval` seconds between advertisements, and waits until
    /// one node has the address and the other one waits for it.
    pub(super) fn start(interval: f64) -> Result<Self> {
        let purpose = "bench-keepalived";
        let cluster = Cluster::new(purpose, ALL_NODES)?;
        let external = External::new(purpose, &cluster)?;
        let spawn = |index| spawn(&cluster, cluster.node(index), index, interval);
        let processes = NODES.into_iter().map(spawn).collect::<Result<_>>()?;
        let keepalived = Self {
            processes,
            external,
            cluster,
        };
        // Either may be the first.
        within(PATIENCE, || keepalived.owner()).map_err(Error::msg)?;
        keepalived.await_state(3 - keepalived.owner()?, "BACKUP")?;
        Ok(keepalived)
    }

    /// Waits until keepalived on node `index` says that it is in `state`.
    fn await_state(&self, index: u8, state: &str) -> Result<()> {
        let process = &self.processes[usize::from(index) - 1];
        within(PATIENCE, || {
            let log = process.log();
            let last = log.lines().rfind(|line| line.contains("Entering "));
            last.is_some_and(|line| line.contains(&format!("Entering {state} STATE")))
        })
        .map_err(|_| anyhow!("n{index} is not {state}:\n{}", process.log()))
    }

    fn has_address(&self, index: u8) -> Result<bool> {
        let shown = (self.cluster.node(index).netns()).ip("-o address show dev ext0")?;
        Ok(shown.contains(&format!(" {EGRESS_IP}/")))
    }
}

impl Contender for Keepalived {
    fn external(&self) -> &External {
        &self.external
    }

    fn owner(&self) -> Result<u8> {
        let owners = NODES
            .into_iter()
            .filter_map(|index| match self.has_address(index) {
                Ok(false) => None,
                Ok(true) => Some(Ok(index)),
                Err(error) => Some(Err(error)),
            });
        let owners = owners.collect::<Result<Vec<_>>>()?;
        ensure!(owners.len() == 1, "the egress IP is on {owners:?}");
        Ok(owners[0])
    }

    fn cut(&self, index: u8) -> Result<()> {
        self.cluster.set_link(index, LinkState::Down)?;
        self.external.set_link(index, LinkState::Down)
    }

    fn await_owner(&self, index: u8) -> Result<()> {
        self.await_state(index, "MASTER")
    }

    fn mend(&self, index: u8) -> Result<()> {
        self.cluster.set_link(index, LinkState::Up)?;
        self.external.set_link(index, LinkState::Up)?;
        self.await_state(index, "BACKUP")
    }
}

/// Makes node `index` what an agent would make it, and starts keepalived there.
fn spawn(cluster: &Cluster, node: &Node, index: u8, interval: f64) -> Result<Process> {
    let inside = |program: &str, arguments: &[&str]| {
        run(node.netns().command(program).args(arguments)).map(drop)
    };
    inside("sysctl", &["-qw", "net.ipv4.conf.all.forwarding=1"])?;
    inside("nft", &[&nat()])?;
    let file = |name: &str| cluster.files().join(format!("n{index}-keepalived{name}"));
    let config = file(".conf");
    fs::write(&config, vrrp(index, interval))
        .with_context(|| format!("write {}", config.display()))?;
    let mut command = node.netns().command("unshare");
    // It has a child that outlives it, unless they have a namespace of processes that ends.
    command.args(["--pid", "--fork", "--kill-child", "keepalived"]);
    command.args(["--vrrp", "--dont-fork", "--log-console"]);
    command.arg("--use-file").arg(&config);
    command.arg("--pid").arg(file(".pid"));
    command.arg("--vrrp_pid").arg(file("-vrrp.pid"));
    Process::spawn(&format!("n{index}-keepalived"), &command, &file(".log"))
}

/// Steers the client's packets to the address.
fn nat() -> String {
    format!(
        "table ip bench {{ chain postrouting {{ type nat hook postrouting priority srcnat; \
         ip saddr {CLIENTS} oifname ext0 snat to {EGRESS_IP}; }}; }}"
    )
}

/// High priorities: the higher, the sooner a backup stops waiting.
fn vrrp(index: u8, interval: f64) -> String {
    let priority = 255 - index;
    format!(
        "global_defs {{\n  router_id n{index}\n  vrrp_version 3\n}}\n\
         vrrp_instance egress {{\n  state BACKUP\n  nopreempt\n  interface ext0\n  \
         virtual_router_id 51\n  priority {priority}\n  advert_int {interval}\n  \
         virtual_ipaddress {{\n    {EGRESS_IP}/32 dev ext0\n  }}\n}}\n"
    )
}
