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

/// What a connection runs over.
trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// A channel to the agent of `node` at `address`. It connects when it is first used, and again
/// whenever the connection is gone.
pub(super) fn channel(node: &Arc<str>, address: SocketAddr, security: &Security) -> Channel {
    let (node, security) = (node.clone(), security.clone());
    let connect = move |_: Uri| {
        let (node, security) = (node.clone(), security.clone());
        async move { connect(&node, address, &security).await.map(TokioIo::new) }
    };
    // Only its form matters: the connector knows where to go.
    Endpoint::from_static("http://agent")
        .connect_timeout(CALL_LIMIT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(CALL_LIMIT)
        .keep_alive_while_idle(true)
        .connect_with_connector_lazy(tower::service_fn(connect))
}

async fn connect(
    node: &str,
    address: SocketAddr,
    security: &Security,
) -> io::Result<Box<dyn Transport>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    match security {
        Security::Plaintext => Ok(Box::new(stream)),
        Security::Mutual(credentials) => handshake(node, stream, credentials).await,
    }
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
