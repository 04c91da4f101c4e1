//! Who plays: three nodes with an agent each, and a controller on the first.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use pulsepath_tests::{Cluster, Node, Process, run, within};

/// How many nodes there are.
pub(crate) const NODES: u8 = 3;
/// The node on which the controller lives.
pub(crate) const CONTROLLER: u8 = 1;
/// The node whose agent is killed and upgraded.
pub(crate) const AGENT: u8 = 2;
/// The node whose link is cut.
pub(crate) const LINK: u8 = 3;

/// How long a daemon may take until it is ready.
const PATIENCE: Duration = Duration::from_secs(10);

/// An attachment: the link stays, the program behind it changes with an upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attachment {
    /// The name of the link's pin.
    pub(crate) pin: String,
    /// The kernel's id of the link.
    pub(crate) link: u64,
    /// The kernel's id of the program.
    pub(crate) program: u64,
}

impl Attachment {
    /// Whether this is `old` with another program.
    pub(crate) fn replaces(&self, old: &Self) -> bool {
        self.pin == old.pin && self.link == old.link && self.program != old.program
    }
}

/// The processes and, below them, the nodes. Dropped in this order.
pub(crate) struct Scene {
    controller: Option<Process>,
    agents: BTreeMap<u8, Process>,
    cluster: Cluster,
}

impl Scene {
    /// The nodes, without any process yet.
    pub(crate) fn new() -> Result<Self> {
        let cluster = Cluster::new("demo", NODES)?;
        Ok(Self {
            controller: None,
            agents: BTreeMap::new(),
            cluster,
        })
    }

    /// The nodes.
    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Node `index`.
    pub(crate) fn node(&self, index: u8) -> &Node {
        self.cluster.node(index)
    }

    /// The node of the controller.
    pub(crate) fn controller_node(&self) -> &Node {
        self.node(CONTROLLER)
    }

    /// Starts the agent of node `index`, without waiting for it.
    pub(crate) fn start_agent(&mut self, index: u8) -> Result<()> {
        let node = self.cluster.node(index);
        let agent = node.spawn_agent(&node.agent_config(""))?;
        self.agents.insert(index, agent);
        Ok(())
    }

    /// Waits until the agent of node `index` is ready.
    pub(crate) fn await_agent(&mut self, index: u8) -> Result<()> {
        let node = self.cluster.node(index);
        let agent = self
            .agents
            .get_mut(&index)
            .context("this agent was not started")?;
        await_ready(agent, || Ok(node.agent_http("/ready")?.status))
            .with_context(|| format!("agent of {}", node.name()))
    }

    /// The agent of node `index`, which runs no more after this.
    pub(crate) fn take_agent(&mut self, index: u8) -> Result<Process> {
        self.agents
            .remove(&index)
            .context("this agent does not run")
    }

    /// Starts the controller and waits until it is ready.
    pub(crate) fn start_controller(&mut self) -> Result<()> {
        let config = self.cluster.controller_config("profile = \"default\"");
        let node = self.cluster.node(CONTROLLER);
        let controller = self.controller.insert(node.spawn_controller(&config)?);
        await_ready(controller, || Ok(node.controller_http("/live")?.status)).context("controller")
    }

    /// Fails if a process that should run has ended.
    pub(crate) fn check_alive(&mut self) -> Result<()> {
        let agents = self.agents.values_mut();
        for process in agents.chain(&mut self.controller) {
            if let Some(status) = process.exited() {
                return Err(anyhow!("a daemon ended: {status}\n{}", process.log()));
            }
        }
        Ok(())
    }

    /// The attachments of node `index`, ordered by pin, as `bpftool` sees them.
    pub(crate) fn attachments(&self, index: u8) -> Result<Vec<Attachment>> {
        let pins = self.node(index).pin_dir().join("v1");
        let entries = fs::read_dir(&pins).with_context(|| format!("read {}", pins.display()))?;
        let mut attachments = Vec::new();
        for entry in entries {
            let entry = entry?;
            let pin = entry.file_name().to_string_lossy().into_owned();
            if pin.starts_with("link_") {
                let mut bpftool = Command::new("bpftool");
                bpftool
                    .args(["--json", "link", "show", "pinned"])
                    .arg(entry.path());
                attachments.push(parse_link(pin, &run(&mut bpftool)?)?);
            }
        }
        ensure!(
            !attachments.is_empty(),
            "no link is pinned in {}",
            pins.display()
        );
        attachments.sort_by(|a, b| a.pin.cmp(&b.pin));
        Ok(attachments)
    }

    /// What the daemons that run have written, for a story that went wrong.
    pub(crate) fn logs(&self) -> String {
        let agents = self.agents.values();
        agents
            .chain(&self.controller)
            .map(Process::log)
            .collect::<Vec<_>>()
            .join("\n")
    }
}

fn await_ready(process: &mut Process, mut status: impl FnMut() -> Result<u16>) -> Result<()> {
    let outcome = within(PATIENCE, || match (process.exited(), status()) {
        (Some(status), _) => Ok(Some(status)),
        (None, Ok(200)) => Ok(None),
        (None, answer) => Err(answer),
    });
    match outcome {
        Ok(None) => Ok(()),
        Ok(Some(status)) => Err(anyhow!("ended at once: {status}\n{}", process.log())),
        Err(reason) => Err(anyhow!("not ready: {reason}\n{}", process.log())),
    }
}

fn parse_link(pin: String, json: &str) -> Result<Attachment> {
    let value: serde_json::Value = serde_json::from_str(json)?;
    // Of one link bpftool prints either the object or a list of it, depending on its version.
    let link = value.get(0).unwrap_or(&value);
    let number = |key: &str| {
        link[key]
            .as_u64()
            .with_context(|| format!("no {key}: {json}"))
    };
    Ok(Attachment {
        pin,
        link: number("id")?,
        program: number("prog_id")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_read_alone_or_in_a_list() {
        let expected = Attachment {
            pin: "link_2_xdp".into(),
            link: 7,
            program: 42,
        };
        let json = r#"{"id":7,"type":"xdp","prog_id":42}"#;
        for json in [json.to_owned(), format!("[{json}]")] {
            assert_eq!(parse_link("link_2_xdp".into(), &json).unwrap(), expected);
        }
    }
}
