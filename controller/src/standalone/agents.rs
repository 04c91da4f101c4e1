//! What each agent shall be told, and in which incarnation of its node.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use probe_user::channel::{Push, Security};
use probe_user::egress::Desired;
use tokio::sync::mpsc;

use crate::channel::{AgentPool, Answer, Outcome};
use crate::health::State;
use crate::monitor::{NodeSpec, Sighting};

/// The agents of all nodes, even of those that are not configured any more: they may have to
/// release something. Each is told anew whenever anything about it changes.
pub(super) struct Agents {
    /// `None`: no channel is configured.
    channel: Option<Channel>,
    nodes: HashMap<String, Node>,
}

struct Channel {
    pool: AgentPool,
    answers: mpsc::UnboundedReceiver<Answer>,
    /// Where agents listen.
    port: u16,
}

/// What is known of a node.
struct Node {
    spec: NodeSpec,
    configured: bool,
    state: State,
    /// As last heard. A node that is heard no more is believed to be in it still.
    incarnation: Option<u64>,
    /// What it shall hold; `None`: it has not been told anything yet.
    desired: Option<Desired>,
}

/// Why an agent is not told.
#[derive(Debug, thiserror::Error)]
#[error("there is no control channel: settings `control.*` need a restart")]
pub(super) struct NoChannel;

impl Agents {
    /// Knows no node yet. Agents listen on `port`; without `security` none is told anything.
    pub(super) fn new(security: Option<Security>, port: u16) -> Self {
        let open = |security| {
            let (pool, answers) = AgentPool::new(security);
            Channel {
                pool,
                answers,
                port,
            }
        };
        Self {
            channel: security.map(open),
            nodes: HashMap::new(),
        }
    }

    /// The next answer of any agent. Never returns without a channel.
    pub(super) async fn answer(&mut self) -> Option<Answer> {
        match &mut self.channel {
            Some(channel) => channel.answers.recv().await,
            None => std::future::pending().await,
        }
    }

    /// An answer that has come already.
    pub(super) fn answer_at_hand(&mut self) -> Option<Answer> {
        self.channel.as_mut()?.answers.try_recv().ok()
    }

    /// These nodes are configured from now on.
    pub(super) fn follow(&mut self, specs: Vec<NodeSpec>) {
        let names: HashSet<String> = specs.iter().map(|spec| spec.name.clone()).collect();
        for (name, node) in &mut self.nodes {
            node.configured = names.contains(name);
        }
        for spec in specs {
            let name = spec.name.clone();
            let node = self.nodes.entry(name.clone()).or_insert_with(|| Node {
                spec: spec.clone(),
                configured: true,
                state: State::Unknown,
                incarnation: None,
                desired: None,
            });
            node.spec = spec;
            self.push(&name);
        }
    }

    /// Takes note of how a node is doing.
    pub(super) fn observe(&mut self, sighting: &Sighting) {
        let Some(node) = self.nodes.get_mut(&sighting.node) else {
            return;
        };
        if node.state != sighting.state {
            node.state = sighting.state;
            if let Some(channel) = &self.channel {
                channel.pool.set_state(&sighting.node, sighting.state);
            }
        }
        let incarnation = sighting.incarnation.or(node.incarnation);
        if node.incarnation != incarnation {
            node.incarnation = incarnation;
            self.push(&sighting.node);
        }
    }

    /// From now on a node shall hold exactly this. A node of which nobody knows where it is, since
    /// it was deleted before this process began, is not told.
    pub(super) fn tell(&mut self, node: &str, desired: Desired) -> Result<(), NoChannel> {
        if let Some(known) = self.nodes.get_mut(node) {
            known.desired = Some(desired);
            self.push(node);
        }
        self.channel.as_ref().map(drop).ok_or(NoChannel)
    }

    /// Takes note of an answer: a node that is not configured any more, and holds nothing any more,
    /// is forgotten.
    pub(super) fn handle_answer(&mut self, answer: &Answer) {
        let Outcome::Applied(report) = &answer.outcome else {
            return;
        };
        let is_done = |node: &Node| {
            let desired = node.desired.as_ref();
            !node.configured
                && report.addresses.is_empty()
                && desired
                    .is_some_and(|it| it.addresses.is_empty() && it.epoch == report.applied_epoch)
        };
        if self.nodes.get(&*answer.node).is_some_and(is_done) {
            self.nodes.remove(&*answer.node);
            if let Some(channel) = &mut self.channel {
                channel.pool.forget(&answer.node);
            }
        }
    }

    fn push(&mut self, name: &str) {
        let (Some(channel), Some(node)) = (&mut self.channel, self.nodes.get(name)) else {
            return;
        };
        let Some(desired) = &node.desired else {
            return;
        };
        let push = Push {
            incarnation: node.incarnation,
            desired: desired.clone(),
            keys: node.spec.keys.all().to_vec(),
        };
        let at = |address: &IpAddr| SocketAddr::new(*address, channel.port);
        let addresses = node.spec.addresses.iter().map(at).collect();
        channel.pool.set_desired(name, addresses, push);
        channel.pool.set_state(name, node.state);
    }
}
