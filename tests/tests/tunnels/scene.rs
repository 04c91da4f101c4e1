//! Nodes with VXLAN between them and agents that count, and what these say.

use std::net::Ipv4Addr;
use std::ops::Deref;
use std::time::Duration;

use pulsepath_tests::overlay::Overlay;
use pulsepath_tests::{Process, bin_dir, eventually, run};
use serde_json::Value;

/// How long anything may take that should happen at once.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// Nodes with VXLAN between all of them.
pub(crate) struct Scene(Overlay);

/// What a node has counted of a peer, one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

impl Deref for Scene {
    type Target = Overlay;

    fn deref(&self) -> &Overlay {
        &self.0
    }
}

impl Scene {
    /// `count` nodes, without agents.
    pub(crate) fn new(purpose: &str, count: u8) -> Self {
        Self(Overlay::new(&format!("tunnels-{purpose}"), count).unwrap())
    }

    /// Starts an agent that counts tunnels, and waits until it does.
    pub(crate) fn start(&self, index: u8, settings: &str) -> Process {
        let node = self.node(index);
        let config = node.agent_config(&format!("tunnels.enabled = true\n{settings}"));
        let agent = node.spawn_agent(&config).unwrap();
        let counting = "pulsepath_tunnels_counted{device=\"eth0\"} 1";
        eventually(SOON, || match node.agent_http("/metrics") {
            Ok(response) if response.body.contains(counting) => Ok(()),
            Ok(response) => Err(response.body),
            Err(error) => Err(format!("{error:#}")),
        });
        agent
    }

    /// Starts a controller on node `index`, of the nodes' IPv4 addresses: IPv6 is off.
    pub(crate) fn start_controller(&self, index: u8, settings: &str) -> Process {
        let mut config = self.cluster().controller_config(settings);
        for node in self.cluster().nodes() {
            config = config.replace(&format!(", \"{}\"", node.ipv6()), "");
        }
        self.node(index).spawn_controller(&config).unwrap()
    }

    /// Waits until the controller on node `index` calls `node` AVAILABLE.
    pub(crate) fn wait_until_available(&self, index: u8, node: &str) {
        let path = format!("/v1/nodes/{node}");
        eventually(SOON, || match self.node(index).controller_http(&path) {
            Ok(answer) if answer.body.contains("\"AVAILABLE\"") => Ok(()),
            other => Err(format!("{other:?}")),
        });
    }

    /// What node `index` has counted of `peer`: received, and sent.
    pub(crate) fn counts(&self, index: u8, peer: u8) -> [Count; 2] {
        self.counts_of(index, self.node(peer).ipv4())
    }

    /// The same of the peer at `address`.
    pub(crate) fn counts_of(&self, index: u8, address: Ipv4Addr) -> [Count; 2] {
        let report = self.inspect(index);
        let address = address.to_string();
        let all = report["tunnels"].as_array().unwrap();
        let found = all.iter().find(|it| it["peer"] == address.as_str());
        ["received", "sent"].map(|direction| {
            found.map_or_else(Count::default, |it| Count {
                packets: it[direction]["packets"].as_u64().unwrap(),
                bytes: it[direction]["bytes"].as_u64().unwrap(),
            })
        })
    }

    /// What `inspect tunnels -o json` says.
    pub(crate) fn inspect(&self, index: u8) -> Value {
        serde_json::from_str(&self.inspect_tunnels(index, &["-o", "json"])).unwrap()
    }

    /// What `inspect tunnels` says.
    pub(crate) fn inspect_tunnels(&self, index: u8, arguments: &[&str]) -> String {
        let node = self.node(index);
        let program = bin_dir().unwrap().join("pulsepath-agent");
        let mut command = node.netns().command(program);
        command.args(["inspect", "tunnels", "--pin-dir"]);
        run(command.arg(node.pin_dir()).args(arguments)).unwrap()
    }

    /// What the kernel has counted on a node's `eth0`: received, and sent.
    pub(crate) fn on_the_link(&self, index: u8) -> [Count; 2] {
        let link = self.node(index).netns().ip("-s -j link show eth0").unwrap();
        let link: Value = serde_json::from_str(&link).unwrap();
        ["rx", "tx"].map(|direction| {
            let counted = &link[0]["stats64"][direction];
            Count {
                packets: counted["packets"].as_u64().unwrap(),
                bytes: counted["bytes"].as_u64().unwrap(),
            }
        })
    }
}

impl Count {
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            packets: self.packets - before.packets,
            bytes: self.bytes - before.bytes,
        }
    }
}
