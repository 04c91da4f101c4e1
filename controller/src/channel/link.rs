//! The way to one agent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use probe_user::channel::proto::agent_client::AgentClient;
use probe_user::logging::in_words;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::agent::Failure;
use super::connect::{Caller, Connected, why_unreached};
use super::lanes::Lanes;
use super::order::{CallError, Order};

/// How long an agent may take to apply a push; a first claim takes it up to 300 ms. How long it may
/// take to connect before that is reported as a failure, too.
const CALL_LIMIT: Duration = Duration::from_secs(1);
/// So many calls in a row may go unanswered until another connection is made. One alone means that
/// the agent is slow, or hangs, or that this machine is too busy to hear its answer, and a new
/// connection would be even more work; packets that do not arrive break a connection by themselves.
const UNANSWERED: u32 = 3;

/// The way to an agent.
pub(super) struct Link {
    caller: Caller,
    /// Calls are made in these.
    calls: Arc<Lanes>,
    /// Failed attempts so far; each of a node's addresses gets its turn.
    turn: usize,
    connection: Option<Connection>,
    /// Calls since something last came back on it.
    unanswered: u32,
}

struct Connection {
    address: SocketAddr,
    progress: Progress,
}

enum Progress {
    Connecting(Connecting),
    Connected(Connected),
}

/// In a task of its own, which goes on when a newer push comes or an attempt's time is over: what
/// has been done to connect is not done again.
struct Connecting {
    begun: watch::Receiver<bool>,
    task: JoinSet<std::io::Result<Connected>>,
}

impl Link {
    pub(super) fn new(caller: Caller, calls: Arc<Lanes>) -> Self {
        Self {
            caller,
            calls,
            turn: 0,
            connection: None,
            unanswered: 0,
        }
    }

    /// Whatever there is of a connection is not used any more.
    pub(super) fn disconnect(&mut self) {
        (self.connection, self.unanswered) = (None, 0);
    }

    /// Brings the agent an order. Connects first where that is necessary.
    pub(super) async fn deliver<O: Order>(
        &mut self,
        addresses: &[SocketAddr],
        order: O,
    ) -> Result<O::Report, Failure> {
        let connection = self.connection(addresses)?;
        let address = connection.address;
        let no_answer = |why| Failure::NoAnswer { address, why };
        if let Progress::Connecting(connecting) = &mut connection.progress {
            // Its time has not begun while it waits behind others. An error means that it is over.
            let _ = connecting.begun.wait_for(|begun| *begun).await;
        }
        let result = match timeout(CALL_LIMIT, connection.connected()).await {
            Ok(Ok(channel)) => {
                let lane = self.calls.enter().await;
                let call = lane.run(call(address, channel, order));
                let Ok(answer) = timeout(CALL_LIMIT, call).await else {
                    self.handle_unanswered();
                    return Err(no_answer(format!("nothing within {CALL_LIMIT:?}")));
                };
                answer
            }
            Ok(Err(why)) => Err(no_answer(why)),
            Err(_) => return Err(no_answer(format!("not connected within {CALL_LIMIT:?}"))),
        };
        self.unanswered = 0;
        if let Err(Failure::NoAnswer { .. }) = &result {
            self.give_up();
        }
        result
    }

    fn handle_unanswered(&mut self) {
        self.unanswered += 1;
        if self.unanswered == UNANSWERED {
            self.give_up();
        }
    }

    /// The next attempt is made over another connection, to another address if there is one.
    fn give_up(&mut self) {
        self.disconnect();
        self.turn += 1;
    }

    /// Waits until a connection that was made is broken; for ever, if there is none.
    pub(super) async fn broken(&mut self) {
        match &mut self.connection {
            Some(Connection {
                progress: Progress::Connected(connected),
                ..
            }) => connected.broken().await,
            Some(_) | None => std::future::pending().await,
        }
        self.disconnect();
    }

    /// The connection to one of `addresses`, begun if there is none.
    fn connection(&mut self, addresses: &[SocketAddr]) -> Result<&mut Connection, Failure> {
        let usable = |connection: &Connection| addresses.contains(&connection.address);
        let connection = match self.connection.take().filter(usable) {
            Some(connection) => connection,
            None => {
                let turn = self.turn.checked_rem(addresses.len());
                self.begin(addresses[turn.ok_or(Failure::NoAddress)?])
            }
        };
        Ok(self.connection.insert(connection))
    }

    fn begin(&self, address: SocketAddr) -> Connection {
        let (begin, begun) = watch::channel(false);
        let task = JoinSet::from_iter([self.caller.clone().connect(address, begin)]);
        Connection {
            address,
            progress: Progress::Connecting(Connecting { begun, task }),
        }
    }
}

impl Connection {
    /// Waits until it is made.
    async fn connected(&mut self) -> Result<Channel, String> {
        let connected = match &mut self.progress {
            Progress::Connected(connected) => return Ok(connected.channel.clone()),
            Progress::Connecting(connecting) => match connecting.task.join_next().await {
                Some(Ok(connected)) => connected.map_err(|error| in_words(&error))?,
                Some(Err(panic)) => return Err(panic.to_string()),
                None => return Err("not connected".to_owned()),
            },
        };
        let channel = connected.channel.clone();
        self.progress = Progress::Connected(connected);
        Ok(channel)
    }
}

async fn call<O: Order>(
    address: SocketAddr,
    channel: Channel,
    order: O,
) -> Result<O::Report, Failure> {
    let told = order.tell(AgentClient::new(channel)).await;
    told.map_err(|error| match error {
        CallError::Status(status) => failure(address, &status),
        CallError::Malformed(source) => Failure::Malformed { address, source },
    })
}

fn failure(address: SocketAddr, status: &Status) -> Failure {
    if let Some(why) = why_unreached(status) {
        return Failure::NoAnswer { address, why };
    }
    let why = status.message().to_owned();
    match status.code() {
        Code::FailedPrecondition => Failure::Stale { address, why },
        _ => Failure::Unable { address, why },
    }
}
