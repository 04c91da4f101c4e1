//! Connections to agents.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use probe_user::channel::{Credentials, Security};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint, Uri};

use super::agent::CALL_LIMIT;

/// How often an idle connection is asked whether the agent is still there: a dead one must be known
/// for dead before it is needed.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// How long TCP may take to connect.
const TCP_LIMIT: Duration = Duration::from_secs(1);
/// How long TLS may take. Long, since it is work: a thousand agents that come back at once would
/// otherwise all be given up, again and again, with their work half done.
const TLS_LIMIT: Duration = Duration::from_secs(20);

/// What a connection runs over.
trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// Connects to the agent of `node` at `address`. Should the connection break later, the channel makes
/// another when it is used.
pub(super) async fn channel(
    node: Arc<str>,
    address: SocketAddr,
    security: Security,
) -> Result<Channel, tonic::transport::Error> {
    let connect = move |_: Uri| {
        let (node, security) = (node.clone(), security.clone());
        async move { connect(&node, address, &security).await.map(TokioIo::new) }
    };
    // Only its form matters: the connector knows where to go.
    Endpoint::from_static("http://agent")
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(CALL_LIMIT)
        .keep_alive_while_idle(true)
        .connect_with_connector(tower::service_fn(connect))
        .await
}

async fn connect(
    node: &str,
    address: SocketAddr,
    security: &Security,
) -> io::Result<Box<dyn Transport>> {
    let stream = limited(TCP_LIMIT, TcpStream::connect(address)).await?;
    stream.set_nodelay(true)?;
    match security {
        Security::Plaintext => Ok(Box::new(stream)),
        Security::Mutual(credentials) => {
            limited(TLS_LIMIT, handshake(node, stream, credentials)).await
        }
    }
}

async fn limited<T>(limit: Duration, step: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(limit, step).await?
}

async fn handshake(
    node: &str,
    stream: TcpStream,
    credentials: &Credentials,
) -> io::Result<Box<dyn Transport>> {
    // Read anew for each connection: certificates may have been replaced.
    let config = credentials.client(node).map_err(io::Error::other)?;
    let name = ServerName::from(stream.peer_addr()?.ip());
    let connector = TlsConnector::from(Arc::new(config));
    Ok(Box::new(connector.connect(name, stream).await?))
}
