//! Asks agents whether they hear a node, and what flows through their tunnels.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared, select_ok};
use probe_user::channel::proto::TunnelsRequest;
use probe_user::channel::proto::agent_client::AgentClient;
use probe_user::channel::{AskReport, Malformed, Question, Security};
use probe_user::logging::in_words;
use probe_user::tunnels::{Named, TunnelReport};
use tokio::sync::watch;
use tokio::time::timeout;
use tonic::transport::Channel;

use super::connect::{Caller, why_unreached};
use super::lanes::Lanes;

/// A connection that nobody has asked anything over for so long is given up.
const IDLE: Duration = Duration::from_secs(600);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskFailure {
    /// The agent cannot be reached.
    #[error("the agent cannot be reached: {0}")]
    Unreachable(String),
    /// The agent answered with an error.
    #[error("the agent fails: {0}")]
    Unable(String),
    /// The agent's answer makes no sense.
    #[error("the agent answered what makes no sense")]
    Malformed(#[source] Malformed),
    /// There was no answer in time.
    #[error("no answer in time")]
    Late,
}

/// Asks any agent anything at any time. Connections are made when they are needed first, and kept.
pub struct Asker {
    security: Security,
    handshakes: Arc<Lanes>,
    ways: HashMap<String, Way>,
}

impl Asker {
    /// Knows no agent yet.
    pub fn new(security: Security) -> Self {
        Self {
            security,
            handshakes: Arc::new(Lanes::new()),
            ways: HashMap::new(),
        }
    }

    /// Asks the agent of node `witness`, at any of `addresses`. The answer comes within `limit`, if
    /// the future is polled; whether it is or not, a connection that was begun is made. Must be called
    /// within a tokio runtime.
    ///
    /// # Errors
    ///
    /// If there is no answer that makes sense within `limit`.
    pub fn ask(
        &mut self,
        witness: &str,
        addresses: &[SocketAddr],
        question: Question,
        limit: Duration,
    ) -> impl Future<Output = Result<AskReport, AskFailure>> + use<> {
        let way = self.way(witness, addresses);
        in_time(limit, async move {
            way.ask(|channel| call(channel, question.clone())).await
        })
    }

    /// Asks the agent of `node` what it has counted of its tunnels, and tells it which nodes there
    /// are; else as [`Self::ask`].
    ///
    /// # Errors
    ///
    /// If there is no answer that makes sense within `limit`.
    pub fn tunnels(
        &mut self,
        node: &str,
        addresses: &[SocketAddr],
        nodes: Arc<[Named]>,
        limit: Duration,
    ) -> impl Future<Output = Result<TunnelReport, AskFailure>> + use<> {
        let way = self.way(node, addresses);
        in_time(limit, async move {
            way.ask(|channel| call_tunnels(channel, nodes.clone()))
                .await
        })
    }

    fn way(&mut self, witness: &str, addresses: &[SocketAddr]) -> Arc<Connections> {
        let now = Instant::now();
        self.ways.retain(|_, way| now - way.used < IDLE);
        let fits = |way: &&mut Way| way.connections.addresses == addresses;
        if let Some(way) = self.ways.get_mut(witness).filter(fits) {
            way.used = now;
            return way.connections.clone();
        }
        let caller = Caller {
            node: Arc::from(witness),
            security: self.security.clone(),
            lanes: self.handshakes.clone(),
        };
        let connections = Arc::new(Connections {
            caller,
            addresses: addresses.to_vec(),
            present: Mutex::default(),
        });
        let way = Way {
            used: now,
            connections: connections.clone(),
        };
        self.ways.insert(witness.to_owned(), way);
        connections
    }
}

/// The way to one agent.
struct Way {
    /// When it was last used.
    used: Instant,
    connections: Arc<Connections>,
}

/// Connections to one agent, one after the other.
struct Connections {
    caller: Caller,
    addresses: Vec<SocketAddr>,
    present: Mutex<Option<Connecting>>,
}

/// A connection that is made, or being made, for all who wait for it.
type Connecting = Shared<BoxFuture<'static, Result<Channel, String>>>;

impl Connections {
    /// What `call` asks over a connection.
    async fn ask<T, A>(&self, call: impl Fn(Channel) -> A) -> Result<T, AskFailure>
    where
        A: Future<Output = Result<T, AskFailure>>,
    {
        let (connecting, new) = self.connecting();
        match self.ask_over(connecting, &call).await {
            // It had been broken, or was never made, and nobody had noticed.
            Err(AskFailure::Unreachable(_)) if !new => {
                let (connecting, _) = self.connecting();
                self.ask_over(connecting, &call).await
            }
            answer => answer,
        }
    }

    async fn ask_over<T, A>(
        &self,
        connecting: Connecting,
        call: impl Fn(Channel) -> A,
    ) -> Result<T, AskFailure>
    where
        A: Future<Output = Result<T, AskFailure>>,
    {
        let answer = match connecting.clone().await {
            Ok(channel) => call(channel).await,
            Err(why) => Err(AskFailure::Unreachable(why)),
        };
        if let Err(AskFailure::Unreachable(_)) = answer {
            let mut present = self.lock();
            if present.as_ref().is_some_and(|it| it.ptr_eq(&connecting)) {
                *present = None;
            }
        }
        answer
    }

    /// The present connection, begun if there is none, and whether that was so.
    fn connecting(&self) -> (Connecting, bool) {
        let mut present = self.lock();
        match &*present {
            Some(connecting) => (connecting.clone(), false),
            None => (present.insert(self.begin()).clone(), true),
        }
    }

    /// Connects to whichever address is the first to answer, in a task of its own: it goes on when
    /// those who wait for it have no more time.
    fn begin(&self) -> Connecting {
        let attempt = |address: &SocketAddr| {
            let begun = watch::Sender::new(false);
            self.caller.clone().connect(*address, begun).boxed()
        };
        let attempts: Vec<_> = self.addresses.iter().map(attempt).collect();
        let connect = async move {
            if attempts.is_empty() {
                return Err("it has no address".to_owned());
            }
            let (connected, _) = select_ok(attempts)
                .await
                .map_err(|error| in_words(&error))?;
            Ok(connected.channel)
        };
        let connected = tokio::spawn(connect);
        let connected = connected.map(|it| it.unwrap_or_else(|panic| Err(panic.to_string())));
        connected.boxed().shared()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Connecting>> {
        // What is in there is replaced as a whole.
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn call(channel: Channel, question: Question) -> Result<AskReport, AskFailure> {
    let asked = AgentClient::new(channel)
        .ask(tonic::Request::new(question.into()))
        .await;
    let report = asked.map_err(failure)?;
    AskReport::try_from(report.into_inner()).map_err(AskFailure::Malformed)
}

async fn call_tunnels(channel: Channel, nodes: Arc<[Named]>) -> Result<TunnelReport, AskFailure> {
    let nodes = nodes.iter().cloned().map(Into::into).collect();
    let request = tonic::Request::new(TunnelsRequest { nodes });
    let asked = AgentClient::new(channel).tunnels(request).await;
    let report = asked.map_err(failure)?;
    TunnelReport::try_from(report.into_inner()).map_err(AskFailure::Malformed)
}

async fn in_time<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, AskFailure>>,
) -> Result<T, AskFailure> {
    timeout(limit, answer)
        .await
        .unwrap_or(Err(AskFailure::Late))
}

fn failure(status: tonic::Status) -> AskFailure {
    match why_unreached(&status) {
        Some(why) => AskFailure::Unreachable(why),
        None => AskFailure::Unable(status.message().to_owned()),
    }
}
