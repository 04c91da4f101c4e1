//! What each agent shall be told, and in which incarnation of its node.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

use probe_user::channel::{Push, Security};
use probe_user::egress::Desired;

use super::messenger::Messenger;
use crate::channel::{Answer, Outcome};
use crate::health::State;
use crate::monitor::{NodeSpec, Sighting};

/// The agents of all nodes, even of those that are not configured any more: they may have to
/// release something. Each is told anew whenever anything about it changes.
pub(crate) struct Agents {
    messenger: Messenger<Push>,
    nodes: HashMap<String, Node>,
}

/// What is known of a node.
struct Node {
    addresses: Vec<IpAddr>,
    configured: bool,
    state: State,
    /// As last heard. A node that is heard no more is believed to be in it still.
    incarnation: Option<u64>,
    /// What it shall hold; `None`: it has not been told anything yet.
    desired: Option<Desired>,
}

impl Node {
    fn unknown(addresses: Vec<IpAddr>) -> Self {
        Self {
            addresses,
            configured: false,
            state: State::Unknown,
            incarnation: None,
            desired: None,
        }
    }
}

/// Why an agent is not told.
#[derive(Debug, thiserror::Error)]
#[error("there is no control channel: settings `control.*` need a restart")]
pub(crate) struct NoChannel;

impl Agents {
    /// Knows no node yet. Agents listen on `port`; without `security` none is told anything.
    pub(crate) fn new(security: Option<Security>, port: u16) -> Self {
        Self {
            messenger: Messenger::new(security, port),
            nodes: HashMap::new(),
        }
    }

    /// The next answer of any agent. Never returns without a channel.
    pub(crate) async fn answer(&mut self) -> Option<Answer> {
        self.messenger.answer().await
    }

    /// An answer that has come already.
    pub(crate) fn answer_at_hand(&mut self) -> Option<Answer> {
        self.messenger.answer_at_hand()
    }

    /// These nodes are configured from now on.
    pub(crate) fn follow(&mut self, specs: Vec<NodeSpec>) {
        let names: HashSet<String> = specs.iter().map(|spec| spec.name.clone()).collect();
        for (name, node) in &mut self.nodes {
            node.configured = names.contains(name);
        }
        for spec in specs {
            let node = self.nodes.entry(spec.name.clone());
            let node = node.or_insert_with(|| Node::unknown(Vec::new()));
            node.configured = true;
            node.addresses = spec.addresses;
            self.push(&spec.name);
        }
    }

    /// Nodes that an earlier controller told something, by where they were reached then.
    pub(crate) fn remember(&mut self, reach: BTreeMap<String, Vec<IpAddr>>) {
        for (name, addresses) in reach {
            let node = self.nodes.entry(name);
            node.or_insert_with(|| Node::unknown(addresses));
        }
    }

    /// Takes note of how a node is doing.
    pub(crate) fn observe(&mut self, sighting: &Sighting) {
        let Some(node) = self.nodes.get_mut(&sighting.node) else {
            return;
        };
        if node.state != sighting.state {
            node.state = sighting.state;
            self.messenger.set_state(&sighting.node, sighting.state);
        }
        let incarnation = sighting.incarnation.or(node.incarnation);
        if node.incarnation != incarnation {
            node.incarnation = incarnation;
            self.push(&sighting.node);
        }
    }

    /// From now on a node shall hold exactly this. A node of which nobody knows where it is is not
    /// told.
    pub(crate) fn tell(&mut self, node: &str, desired: Desired) -> Result<(), NoChannel> {
        if let Some(known) = self.nodes.get_mut(node) {
            known.desired = Some(desired);
            self.push(node);
        }
        self.messenger.is_open().then_some(()).ok_or(NoChannel)
    }

    /// Takes note of an answer: a node that is not configured any more, and holds nothing any more,
    /// is forgotten.
    pub(crate) fn handle_answer(&mut self, answer: &Answer) {
        let Outcome::Done(report) = &answer.outcome else {
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
            self.messenger.forget(&answer.node);
        }
    }

    fn push(&mut self, name: &str) {
        let Some(node) = self.nodes.get(name) else {
            return;
        };
        let Some(desired) = &node.desired else {
            return;
        };
        let push = Push {
            incarnation: node.incarnation,
            desired: desired.clone(),
        };
        self.messenger.tell(name, &node.addresses, push);
        self.messenger.set_state(name, node.state);
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use probe_user::channel::{self, Bound, KeyPush, Refusal, Report};
    use probe_user::keys::ClusterKeys;
    use tokio::sync::mpsc;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// A node that passes on what it is told.
    struct Told(mpsc::UnboundedSender<Push>);

    impl channel::Node for Told {
        async fn apply(&self, push: Push) -> Result<Report, Refusal> {
            // An error means that nobody looks any more.
            let _ = self.0.send(push);
            Ok(channel::Node::report(self))
        }

        async fn replace_keys(&self, _: KeyPush) -> Result<(), Refusal> {
            Err(Refusal::Unable("nobody asks for that here".to_owned()))
        }

        fn report(&self) -> Report {
            Report {
                applied_epoch: 1,
                incarnation: 0,
                addresses: Vec::new(),
                not_fenced: Vec::new(),
                witness_version: 0,
            }
        }
    }

    /// A node n1 that is told something, and what it is told.
    async fn told(incarnation: Option<u64>) -> (Agents, mpsc::UnboundedReceiver<Push>) {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let bound = Bound::bind(any, Security::Plaintext).await.unwrap();
        let (sender, told) = mpsc::unbounded_channel();
        let mut agents = Agents::new(Some(Security::Plaintext), bound.local_addr().port());
        tokio::spawn(bound.run(Told(sender)));
        agents.follow(vec![spec()]);
        agents.observe(&sighting(incarnation));
        agents.tell("n1", Desired::default()).unwrap();
        (agents, told)
    }

    fn spec() -> NodeSpec {
        NodeSpec {
            name: "n1".to_owned(),
            addresses: vec![[127, 0, 0, 1].into()],
            labels: Default::default(),
            keys: ClusterKeys::generate(1).unwrap().node_keys("n1"),
            problem: None,
        }
    }

    fn sighting(incarnation: Option<u64>) -> Sighting {
        Sighting {
            node: "n1".to_owned(),
            state: State::Available,
            since: std::time::SystemTime::UNIX_EPOCH,
            heard: None,
            only_others: false,
            incarnation,
        }
    }

    async fn next(told: &mut mpsc::UnboundedReceiver<Push>) -> Push {
        let next = tokio::time::timeout(PATIENCE, told.recv()).await;
        next.unwrap().unwrap()
    }

    #[tokio::test]
    async fn a_push_names_the_incarnation_that_was_heard_last() {
        let (mut agents, mut told) = told(Some(7)).await;
        assert_eq!(next(&mut told).await.incarnation, Some(7));
        agents.observe(&sighting(Some(8)));
        assert_eq!(next(&mut told).await.incarnation, Some(8));
        agents.observe(&sighting(None));
        // Not because of that, but since everyone is told again after a while.
        assert_eq!(next(&mut told).await.incarnation, Some(8));
    }

    #[tokio::test]
    async fn a_node_that_was_never_heard_is_told_whatever_its_incarnation_is() {
        let (_agents, mut told) = told(None).await;
        assert_eq!(next(&mut told).await.incarnation, None);
    }

    #[tokio::test]
    async fn a_deleted_node_is_forgotten_once_it_holds_nothing() {
        let (mut agents, mut told) = told(Some(7)).await;
        next(&mut told).await;
        agents.follow(Vec::new());
        let answer = tokio::time::timeout(PATIENCE, agents.answer()).await;
        assert_eq!(agents.nodes.len(), 1);
        agents.handle_answer(&answer.unwrap().unwrap());
        // The answer is to another epoch: what it was told last it may hold still.
        assert_eq!(agents.nodes.len(), 1);
        agents
            .tell(
                "n1",
                Desired {
                    epoch: 1,
                    ..Desired::default()
                },
            )
            .unwrap();
        while !agents.nodes.is_empty() {
            let answer = tokio::time::timeout(PATIENCE, agents.answer()).await;
            agents.handle_answer(&answer.unwrap().unwrap());
        }
    }
}
