//! All agents.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use probe_user::channel::{Push, Security};
use tokio::sync::{mpsc, watch};

use super::agent::{Answer, Courier, Orders};
use super::connect::Caller;
use super::lanes::Lanes;
use super::link::Link;
use super::order::Order;
use crate::health::State;

/// Brings every agent one kind of order, each in a task of its own. Level-driven: a newer order replaces
/// an older one, whether or not that has arrived.
///
/// A call may take one second. One that fails is repeated, after 50 ms at first and never after
/// more than the order's longest pause; one that succeeds is repeated as the order says, so that what
/// changes on a node is known. Connections are kept open, and made anew as soon as they are known to be broken.
pub struct AgentPool<O: Order = Push> {
    security: Security,
    handshakes: Arc<Lanes>,
    calls: Arc<Lanes>,
    agents: HashMap<String, watch::Sender<Orders<O>>>,
    answers: mpsc::UnboundedSender<Answer<O::Report>>,
}

impl<O: Order> AgentPool<O> {
    /// No agent yet. What agents answer comes out of the receiver; dropping that ends everything.
    pub fn new(security: Security) -> (Self, mpsc::UnboundedReceiver<Answer<O::Report>>) {
        let (answers, receiver) = mpsc::unbounded_channel();
        let pool = Self {
            security,
            handshakes: Arc::new(Lanes::new()),
            calls: Arc::new(Lanes::new()),
            agents: HashMap::new(),
            answers,
        };
        (pool, receiver)
    }

    /// From now on the agent of `node`, at any of `addresses`, shall be told `order`. Must be called
    /// within a tokio runtime.
    pub fn set_desired(&mut self, node: &str, addresses: Vec<SocketAddr>, order: O) {
        if let Some(agent) = self.agents.get(node) {
            agent.send_if_modified(|orders| {
                let differs = orders.addresses != addresses || orders.order != order;
                (orders.addresses, orders.order) = (addresses, order);
                differs
            });
            return;
        }
        let (sender, receiver) = watch::channel(Orders {
            addresses,
            order,
            state: State::Unknown,
        });
        let node: Arc<str> = Arc::from(node);
        let caller = Caller {
            node: node.clone(),
            security: self.security.clone(),
            lanes: self.handshakes.clone(),
        };
        let link = Link::new(caller, self.calls.clone());
        self.agents.insert(node.to_string(), sender);
        let courier = Courier {
            node,
            link,
            orders: receiver,
            answers: self.answers.clone(),
        };
        tokio::spawn(courier.run());
    }

    /// How `node` is doing, as its answers to probes say; of a node that has nothing to be told it
    /// is no matter. The agent of a node that is UNREACHABLE is called every 5 s only; whenever the
    /// state changes it is called at once, over a new connection if the node was or is UNREACHABLE.
    pub fn set_state(&self, node: &str, state: State) {
        if let Some(agent) = self.agents.get(node) {
            agent.send_if_modified(|orders| std::mem::replace(&mut orders.state, state) != state);
        }
    }

    /// The agent of `node` is told nothing any more. An answer may still be on its way.
    pub fn forget(&mut self, node: &str) {
        // Its task ends when nobody can order anything of it.
        self.agents.remove(node);
    }
}
