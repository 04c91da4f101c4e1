//! Serves controllers.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tonic::transport::Server as Http2;
use tracing::warn;

use super::proto::agent_server::AgentServer;
use super::service::Service;
use super::{Credentials, Node, accept};

/// How often a connection is asked whether its peer is still there, and for how long.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// What it is called in the log.
const CHANNEL: &str = "the control channel";

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
                let connections = accept::plain(self.listener, CHANNEL);
                router.serve_with_incoming(connections).await
            }
            Security::Mutual(credentials) => {
                let config = move || credentials.server();
                let connections = accept::secured(self.listener, CHANNEL, config);
                router.serve_with_incoming(connections).await
            }
        };
        served.map_err(|source| ServeError::Serve {
            listen: self.local,
            source,
        })
    }
}
