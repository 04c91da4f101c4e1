//! One node's agent: brings it what its node shall hold, until it has it.

use std::error::Error as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use probe_user::channel::proto::agent_client::AgentClient;
use probe_user::channel::{Malformed, Push, Report, Security};
use probe_user::logging::in_words;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tonic::Code;
use tonic::transport::Channel;

use super::connect;

/// How long an agent may take to apply a push; a first claim takes it up to 300 ms.
pub(super) const CALL_LIMIT: Duration = Duration::from_secs(1);
/// Pause before the second attempt; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How often an agent is told again what it has applied. That finds out what has changed there, and
/// repairs an agent that has forgotten.
const REFRESH: Duration = Duration::from_secs(5);

/// What became of telling an agent.
#[derive(Debug)]
pub struct Answer {
    /// The node.
    pub node: Arc<str>,
    /// The epoch that the agent was told.
    pub epoch: u64,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a push.
#[derive(Debug)]
pub enum Outcome {
    /// The agent has applied it.
    Applied(Report),
    /// It is not known to have been applied. It is tried again, unless a newer one comes first.
    Failed(Failure),
}

/// Why a push is not known to have been applied.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The agent did not answer in time, or cannot be reached.
    #[error("the agent at {address} does not answer: {why}")]
    NoAnswer {
        /// Where it was tried.
        address: SocketAddr,
        /// Why, for people.
        why: String,
    },
    /// The agent must not apply it: it has applied a newer one, or the node is in another
    /// incarnation.
    #[error("the agent at {address} refuses it: {why}")]
    Stale {
        /// Where it was tried.
        address: SocketAddr,
        /// What the agent said.
        why: String,
    },
    /// The agent answered with another error.
    #[error("the agent at {address} fails: {why}")]
    Unable {
        /// Where it was tried.
        address: SocketAddr,
        /// What the agent said.
        why: String,
    },
    /// The agent's answer makes no sense.
    #[error("the agent at {address} answered what makes no sense")]
    Malformed {
        /// Where it was tried.
        address: SocketAddr,
        /// What is wrong with it.
        source: Malformed,
    },
    /// The node has no address.
    #[error("the node has no address")]
    NoAddress,
}

/// What an agent shall be told, and where it is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wanted {
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) push: Push,
}

/// Brings an agent what is wanted, the newest only.
pub(super) struct Courier {
    pub(super) node: Arc<str>,
    pub(super) security: Security,
    pub(super) wanted: watch::Receiver<Wanted>,
    pub(super) answers: mpsc::UnboundedSender<Answer>,
}

impl Courier {
    /// Runs until nobody can want anything any more.
    pub(super) async fn run(mut self) {
        let mut link = Link::default();
        let mut pause = FIRST_PAUSE;
        loop {
            let wanted = self.wanted.borrow_and_update().clone();
            let epoch = wanted.push.desired.epoch;
            let attempt = tokio::select! {
                biased;
                // What is under way is out of date.
                newer = self.wanted.changed() => match newer {
                    Ok(()) => continue,
                    Err(_) => return,
                },
                result = link.deliver(&self.node, &self.security, wanted) => result,
            };
            let rest = match &attempt {
                Ok(_) => {
                    pause = FIRST_PAUSE;
                    REFRESH
                }
                Err(_) => {
                    let rest = pause;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    rest
                }
            };
            let answer = Answer {
                node: self.node.clone(),
                epoch,
                outcome: attempt.map_or_else(Outcome::Failed, Outcome::Applied),
            };
            if self.answers.send(answer).is_err() {
                return;
            }
            tokio::select! {
                newer = self.wanted.changed() => if newer.is_err() { return },
                () = sleep(rest) => {}
            }
        }
    }
}

/// The way to an agent.
#[derive(Default)]
struct Link {
    /// Failed attempts so far; each of a node's addresses gets its turn.
    turn: usize,
    connection: Option<Connection>,
}

struct Connection {
    address: SocketAddr,
    progress: Progress,
}

enum Progress {
    /// In a task of its own, which goes on when a newer push comes or an attempt's time is over: what
    /// has been done to connect is not done again.
    Connecting(JoinSet<Result<Channel, tonic::transport::Error>>),
    Connected(Channel),
}

impl Link {
    async fn deliver(
        &mut self,
        node: &Arc<str>,
        security: &Security,
        wanted: Wanted,
    ) -> Result<Report, Failure> {
        let connected = timeout(CALL_LIMIT, self.channel(node, security, &wanted.addresses));
        let result = match connected.await {
            Ok(Ok((address, channel))) => call(address, channel, wanted.push).await,
            Ok(Err(failure)) => Err(failure),
            Err(_) => return Err(self.not_yet()),
        };
        if let Err(Failure::NoAnswer { .. }) = &result {
            // A connection on which nothing comes back is not used again.
            self.connection = None;
            self.turn += 1;
        }
        result
    }

    fn not_yet(&self) -> Failure {
        let address = self.connection.as_ref().map(|present| present.address);
        address.map_or(Failure::NoAddress, |address| Failure::NoAnswer {
            address,
            why: format!("not connected within {CALL_LIMIT:?}"),
        })
    }

    async fn channel(
        &mut self,
        node: &Arc<str>,
        security: &Security,
        addresses: &[SocketAddr],
    ) -> Result<(SocketAddr, Channel), Failure> {
        let turn = self.turn.checked_rem(addresses.len());
        let next = addresses[turn.ok_or(Failure::NoAddress)?];
        let usable = |connection: &Connection| addresses.contains(&connection.address);
        let connection = match self.connection.take().filter(usable) {
            Some(connection) => connection,
            None => Connection {
                address: next,
                progress: Progress::Connecting(JoinSet::from_iter([connect::channel(
                    node.clone(),
                    next,
                    security.clone(),
                )])),
            },
        };
        let Connection { address, progress } = self.connection.insert(connection);
        let address = *address;
        match progress {
            Progress::Connected(channel) => Ok((address, channel.clone())),
            Progress::Connecting(connecting) => {
                let no_answer = |why| Failure::NoAnswer { address, why };
                let channel = match connecting.join_next().await {
                    Some(Ok(connected)) => {
                        connected.map_err(|error| no_answer(in_words(&error)))?
                    }
                    Some(Err(panic)) => return Err(no_answer(panic.to_string())),
                    None => return Err(no_answer("not connected".to_owned())),
                };
                *progress = Progress::Connected(channel.clone());
                Ok((address, channel))
            }
        }
    }
}

async fn call(address: SocketAddr, channel: Channel, push: Push) -> Result<Report, Failure> {
    let mut client = AgentClient::new(channel);
    let no_answer = |why| Failure::NoAnswer { address, why };
    let response = timeout(CALL_LIMIT, client.apply(tonic::Request::new(push.into())))
        .await
        .map_err(|_| no_answer(format!("nothing within {CALL_LIMIT:?}")))?;
    let report = response.map_err(|status| {
        let why = status.message().to_owned();
        match status.code() {
            // Made up by our side, too, when there is no connection; the cause is what people need.
            Code::Unavailable | Code::Unknown | Code::Cancelled => {
                no_answer(status.source().map_or(why, in_words))
            }
            Code::FailedPrecondition => Failure::Stale { address, why },
            _ => Failure::Unable { address, why },
        }
    })?;
    Report::try_from(report.into_inner()).map_err(|source| Failure::Malformed { address, source })
}
