//! All agents.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use probe_user::channel::{Push, Security};
use tokio::sync::{mpsc, watch};

use super::agent::{Answer, Courier, Wanted};

/// Brings every agent what its node shall hold, each in a task of its own. Level-driven: a newer push
/// replaces an older one, whether or not that has arrived.
///
/// A call may take one second. One that fails is repeated, after 50 ms at first and never after
/// more than 5 s; one that succeeds is repeated every 5 s, so that what changes on a node is known.
pub struct AgentPool {
    security: Security,
    agents: HashMap<String, watch::Sender<Wanted>>,
    answers: mpsc::UnboundedSender<Answer>,
}

impl AgentPool {
    /// No agent yet. What agents answer comes out of the receiver; dropping that ends everything.
    pub fn new(security: Security) -> (Self, mpsc::UnboundedReceiver<Answer>) {
        let (answers, receiver) = mpsc::unbounded_channel();
        let pool = Self {
            security,
            agents: HashMap::new(),
            answers,
        };
        (pool, receiver)
    }

    /// From now on the agent of `node`, at any of `addresses`, shall be told `push`. Must be called
    /// within a tokio runtime.
    pub fn set_desired(&mut self, node: &str, addresses: Vec<SocketAddr>, push: Push) {
        let wanted = Wanted { addresses, push };
        if let Some(agent) = self.agents.get(node) {
            agent.send_if_modified(|present| {
                let differs = *present != wanted;
                *present = wanted;
                differs
            });
            return;
        }
        let (sender, receiver) = watch::channel(wanted);
        let courier = Courier {
            node: Arc::from(node),
            security: self.security.clone(),
            wanted: receiver,
            answers: self.answers.clone(),
        };
        tokio::spawn(courier.run());
        self.agents.insert(node.to_owned(), sender);
    }

    /// The agent of `node` is told nothing any more. An answer may still be on its way.
    pub fn forget(&mut self, node: &str) {
        // Its task ends when nobody can want anything of it.
        self.agents.remove(node);
    }
}
