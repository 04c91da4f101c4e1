//! How agents are told one kind of order, if there is a control channel to tell them by.

use std::net::{IpAddr, SocketAddr};

use probe_user::channel::Security;
use tokio::sync::mpsc;

use crate::channel::{AgentPool, Answer, Order};
use crate::health::State;

/// Tells agents, and hears what they answer. Without a channel it does neither.
pub(crate) struct Messenger<O: Order>(Option<Channel<O>>);

struct Channel<O: Order> {
    pool: AgentPool<O>,
    answers: mpsc::UnboundedReceiver<Answer<O::Report>>,
    /// Where agents listen.
    port: u16,
}

impl<O: Order> Messenger<O> {
    /// Agents listen on `port`; without `security` there is no channel.
    pub(crate) fn new(security: Option<Security>, port: u16) -> Self {
        Self(security.map(|security| {
            let (pool, answers) = AgentPool::new(security);
            Channel {
                pool,
                answers,
                port,
            }
        }))
    }

    /// Whether there is a channel.
    pub(crate) const fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// From now on the agent of `node`, at any of `addresses`, shall be told `order`.
    pub(crate) fn tell(&mut self, node: &str, addresses: &[IpAddr], order: O) {
        if let Some(channel) = &mut self.0 {
            let at = |address: &IpAddr| SocketAddr::new(*address, channel.port);
            let addresses = addresses.iter().map(at).collect();
            channel.pool.set_desired(node, addresses, order);
        }
    }

    /// Takes note of how a node is doing.
    pub(crate) fn set_state(&self, node: &str, state: State) {
        if let Some(channel) = &self.0 {
            channel.pool.set_state(node, state);
        }
    }

    /// The agent of `node` is told nothing any more.
    pub(crate) fn forget(&mut self, node: &str) {
        if let Some(channel) = &mut self.0 {
            channel.pool.forget(node);
        }
    }

    /// The next answer of any agent. Never returns without a channel.
    pub(crate) async fn answer(&mut self) -> Option<Answer<O::Report>> {
        match &mut self.0 {
            Some(channel) => channel.answers.recv().await,
            None => std::future::pending().await,
        }
    }

    /// An answer that has come already.
    pub(crate) fn answer_at_hand(&mut self) -> Option<Answer<O::Report>> {
        self.0.as_mut()?.answers.try_recv().ok()
    }
}
