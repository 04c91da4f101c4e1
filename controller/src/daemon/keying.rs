//! Brings every node its probe keys, and hears which ones it has.

use std::collections::HashMap;
use std::net::IpAddr;

use probe_user::channel::{KeyPush, Security};
use probe_user::keys::NodeKey;

use super::messenger::Messenger;
use crate::channel::Answer;
use crate::monitor::{NodeSpec, Sighting};

/// The agents of all nodes that are configured, whether they ever hold an egress IP or not.
pub(crate) struct Keying {
    messenger: Messenger<KeyPush>,
    /// This controller's, or the last that was recorded.
    term: u32,
    nodes: HashMap<String, Node>,
}

struct Node {
    addresses: Vec<IpAddr>,
    keys: Vec<NodeKey>,
}

impl Keying {
    /// Knows no node yet. Agents listen on `port`; without `security` none is given anything.
    pub(crate) fn new(security: Option<Security>, port: u16) -> Self {
        Self {
            messenger: Messenger::new(security, port),
            term: 0,
            nodes: HashMap::new(),
        }
    }

    /// These nodes are configured from now on.
    pub(crate) fn follow(&mut self, specs: &[NodeSpec]) {
        let node = |spec: &NodeSpec| {
            let (addresses, keys) = (spec.addresses.clone(), spec.keys.all().to_vec());
            (spec.name.clone(), Node { addresses, keys })
        };
        let before = std::mem::replace(&mut self.nodes, specs.iter().map(node).collect());
        for gone in before.keys().filter(|name| !self.nodes.contains_key(*name)) {
            self.messenger.forget(gone);
        }
        self.give_all();
    }

    /// The controller has claimed this term: an agent that was told anything in it takes no key of an
    /// older one.
    pub(crate) fn set_term(&mut self, term: u32) {
        if std::mem::replace(&mut self.term, term) != term {
            self.give_all();
        }
    }

    /// Takes note of how a node is doing.
    pub(crate) fn observe(&self, sighting: &Sighting) {
        self.messenger.set_state(&sighting.node, sighting.state);
    }

    /// The next answer of any agent. Never returns without a channel.
    pub(crate) async fn answer(&mut self) -> Option<Answer<Vec<NodeKey>>> {
        self.messenger.answer().await
    }

    fn give_all(&mut self) {
        for (name, node) in &self.nodes {
            let (term, keys) = (self.term, node.keys.clone());
            self.messenger
                .tell(name, &node.addresses, KeyPush { term, keys });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::{Duration, SystemTime};

    use probe_user::channel::{Bound, Push, Refusal, Report};
    use probe_user::keys::ClusterKeys;
    use tokio::sync::mpsc;

    use super::*;
    use crate::channel::Outcome;
    use crate::health::State;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// A node that passes on which keys it is given, and takes them.
    struct Given(mpsc::UnboundedSender<KeyPush>);

    impl probe_user::channel::Node for Given {
        async fn apply(&self, _: Push) -> Result<Report, Refusal> {
            Err(Refusal::Unable("nobody asks for that here".to_owned()))
        }

        async fn replace_keys(&self, push: KeyPush) -> Result<(), Refusal> {
            // An error means that nobody looks any more.
            let _ = self.0.send(push);
            Ok(())
        }

        fn report(&self) -> Report {
            unreachable!("nobody asks for that here")
        }
    }

    fn spec(keys: &ClusterKeys) -> NodeSpec {
        NodeSpec {
            name: "n1".to_owned(),
            addresses: vec![[127, 0, 0, 1].into()],
            labels: Default::default(),
            keys: keys.node_keys("n1"),
            problem: None,
        }
    }

    struct Scene {
        keying: Keying,
        given: mpsc::UnboundedReceiver<KeyPush>,
        keys: ClusterKeys,
    }

    impl Scene {
        /// The node n1 with one key, which it is given.
        async fn new() -> Self {
            let any = SocketAddr::from(([127, 0, 0, 1], 0));
            let bound = Bound::bind(any, Security::Plaintext).await.unwrap();
            let (sender, given) = mpsc::unbounded_channel();
            let port = bound.local_addr().port();
            tokio::spawn(bound.run(Given(sender)));
            let mut scene = Self {
                keying: Keying::new(Some(Security::Plaintext), port),
                given,
                keys: ClusterKeys::generate(1).unwrap(),
            };
            scene.keying.follow(&[spec(&scene.keys)]);
            assert_eq!(scene.next().await, (0, vec![1]));
            scene
        }

        /// Term and ids of the keys that the node is given next, once it has confirmed them.
        async fn next(&mut self) -> (u32, Vec<u16>) {
            let answer = tokio::time::timeout(PATIENCE, self.keying.answer()).await;
            let Outcome::Done(held) = answer.unwrap().unwrap().outcome else {
                panic!("it takes every key");
            };
            let push = self.given.recv().await.unwrap();
            assert_eq!(held, push.keys);
            (push.term, push.keys.iter().map(|key| key.id).collect())
        }

        fn observe(&self, state: State) {
            self.keying.observe(&Sighting {
                node: "n1".to_owned(),
                state,
                since: SystemTime::UNIX_EPOCH,
                heard: None,
                only_others: false,
                incarnation: None,
            });
        }
    }

    #[tokio::test]
    async fn a_node_is_given_both_keys_in_a_rotation_and_one_after_it() {
        let mut scene = Scene::new().await;
        scene.keys.begin_rotation().unwrap();
        scene.keying.follow(&[spec(&scene.keys)]);
        assert_eq!(scene.next().await, (0, vec![1, 2]));
        scene.keys.finish_rotation().unwrap();
        scene.keying.follow(&[spec(&scene.keys)]);
        assert_eq!(scene.next().await, (0, vec![2]));
    }

    #[tokio::test]
    async fn keys_are_given_again_in_a_new_term() {
        let mut scene = Scene::new().await;
        scene.keying.set_term(4);
        assert_eq!(scene.next().await, (4, vec![1]));
    }

    #[tokio::test]
    async fn a_node_is_given_its_keys_again_when_it_was_unreachable_and_not_before() {
        let mut scene = Scene::new().await;
        scene.observe(State::Available);
        scene.observe(State::Unavailable);
        scene.keying.follow(&[spec(&scene.keys)]);
        scene.keying.set_term(1);
        assert_eq!(scene.next().await, (1, vec![1]));
        scene.observe(State::Unreachable);
        assert_eq!(scene.next().await, (1, vec![1]));
        assert!(scene.given.is_empty());
    }
}
