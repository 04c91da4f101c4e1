//! Accepts controllers.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use futures_util::stream;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tonic::transport::Server as Http2;
use tracing::{debug, warn};

use super::proto::agent_server::AgentServer;
use super::service::Service;
use super::{Credentials, Node};

/// A peer that has not shown who it is after this time is given up.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// So many peers may be showing who they are at once; more are turned away.
const HANDSHAKES: usize = 256;
/// How often a connection is asked whether its peer is still there, and for how long.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// Pause after the system could not accept a connection, so that the log is not flooded.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How a controller and an agent make sure of each other.
#[derive(Clone)]
pub enum Security {
    /// By certificates.
    Mutual(Arc<Credentials>),
    /// Not at all: whoever reaches the port may move addresses.
    Plaintext,
}

/// Why the control channel is not served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address could not be bound.
    #[error("cannot listen on {listen} for the control channel (setting `control.listen`)")]
    Bind {
        /// The address.
        listen: SocketAddr,
        /// What `bind` or `listen` said.
        source: io::Error,
    },
    /// The server failed while running.
    #[error("the control channel on {listen} failed")]
    Serve {
        /// The address.
        listen: SocketAddr,
        /// What failed.
        source: tonic::transport::Error,
    },
}

/// The control channel's server with its address, not yet serving.
pub struct Bound {
    listener: TcpListener,
    local: SocketAddr,
    security: Security,
}

impl Bound {
    /// Binds the address. Port 0 takes any free port: see [`Bound::local_addr`].
    ///
    /// # Errors
    ///
    /// [`ServeError::Bind`].
    pub async fn bind(listen: SocketAddr, security: Security) -> Result<Self, ServeError> {
        let failed = |source| ServeError::Bind { listen, source };
        let listener = TcpListener::bind(listen).await.map_err(failed)?;
        let local = listener.local_addr().map_err(failed)?;
        if matches!(security, Security::Plaintext) {
            warn!(
                address = %local,
                "control.plaintext is set: the control channel is NOT protected, and WHOEVER \
                 REACHES THIS PORT CAN MOVE EGRESS IPS AND REPLACE PROBE KEYS"
            );
        }
        Ok(Self {
            listener,
            local,
            security,
        })
    }

    /// The address that was bound.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Serves for as long as this future is polled.
    ///
    /// # Errors
    ///
    /// [`ServeError::Serve`].
    pub async fn run(self, node: impl Node) -> Result<(), ServeError> {
        let mut server = Http2::builder()
            .http2_keepalive_interval(Some(KEEP_ALIVE))
            .http2_keepalive_timeout(Some(KEEP_ALIVE));
        let router = server.add_service(AgentServer::new(Service(node)));
        let served = match self.security {
            Security::Plaintext => {
                router
                    .serve_with_incoming(plain_connections(self.listener))
                    .await
            }
            Security::Mutual(credentials) => {
                let (accepted, connections) = mpsc::channel(1);
                let serve = router.serve_with_incoming(received(connections));
                tokio::select! {
                    served = serve => served,
                    () = accept(self.listener, credentials, accepted) => Ok(()),
                }
            }
        };
        served.map_err(|source| ServeError::Serve {
            listen: self.local,
            source,
        })
    }
}

fn plain_connections(listener: TcpListener) -> impl Stream<Item = io::Result<TcpStream>> {
    stream::unfold(listener, |listener| async {
        let (connection, _) = next(&listener).await;
        Some((Ok(connection), listener))
    })
}

fn received(
    connections: mpsc::Receiver<TlsStream<TcpStream>>,
) -> impl Stream<Item = io::Result<TlsStream<TcpStream>>> {
    stream::unfold(connections, |mut connections| async {
        let connection = connections.recv().await?;
        Some((Ok(connection), connections))
    })
}

/// Accepts connections for ever. A peer that takes its time holds no other up.
async fn accept(
    listener: TcpListener,
    credentials: Arc<Credentials>,
    accepted: mpsc::Sender<TlsStream<TcpStream>>,
) {
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES));
    loop {
        let (connection, peer) = next(&listener).await;
        let Ok(permit) = handshakes.clone().try_acquire_owned() else {
            warn!(%peer, "turned away: too many peers have not shown who they are");
            continue;
        };
        let acceptor = TlsAcceptor::from(credentials.server());
        let accepted = accepted.clone();
        tokio::spawn(async move {
            let handshake = tokio::time::timeout(HANDSHAKE, acceptor.accept(connection)).await;
            drop(permit);
            match handshake {
                Ok(Ok(connection)) => {
                    debug!(%peer, "a controller has connected");
                    // An error means that the server has ended.
                    let _ = accepted.send(connection).await;
                }
                Ok(Err(error)) => warn!(%peer, %error, "turned away on the control channel"),
                Err(_) => warn!(%peer, "turned away: it has not shown who it is in time"),
            }
        });
    }
}

async fn next(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok((connection, peer)) => {
                // Without it requests wait for acknowledgements; if it fails, they do.
                let _ = connection.set_nodelay(true);
                return (connection, peer);
            }
            Err(error) => {
                warn!(%error, "cannot accept a connection on the control channel");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
