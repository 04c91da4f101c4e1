//! Connections to agents.

use std::error::Error as _;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use nix::sys::socket::{setsockopt, sockopt};
use probe_user::channel::{Credentials, Security};
use probe_user::logging::in_words;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Status};

use super::lanes::Lanes;

/// How long TCP may take to connect.
const TCP_LIMIT: Duration = Duration::from_secs(1);
/// How long TLS may take, which is work: a machine may be busy.
const TLS_LIMIT: Duration = Duration::from_secs(5);
/// Bytes that are not acknowledged within this time mean that a connection is dead. It is the
/// kernel that acknowledges: an agent that hangs is found out by its not answering.
const UNACKNOWLEDGED_MS: u32 = 500;
/// How often the kernel asks whether the other end is still there: a connection on which nothing is
/// sent must be known for dead before it is needed.
const KEEP_ALIVE_S: u32 = 1;
/// What a connection runs over.
trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// Whom to connect to, and how.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) node: Arc<str>,
    pub(super) security: Security,
    /// Connections are made in these.
    pub(super) lanes: Arc<Lanes>,
}

/// A connection to an agent.
pub(super) struct Connected {
    pub(super) channel: Channel,
    broken: oneshot::Receiver<()>,
}

impl Connected {
    /// Waits until the connection is broken.
    pub(super) async fn broken(&mut self) {
        // Nothing is ever sent: the other half goes with the connection.
        let _ = (&mut self.broken).await;
    }
}

impl Caller {
    /// Connects to the agent at `address`, once there is room for that (see `begun`). The channel
    /// ends with the connection.
    pub(super) async fn connect(
        self,
        address: SocketAddr,
        begun: watch::Sender<bool>,
    ) -> io::Result<Connected> {
        let lane = self.lanes.enter().await;
        begun.send_replace(true);
        let transport = lane.run(open(&self.node, address, &self.security)).await?;
        let (alive, broken) = oneshot::channel();
        let watched = Watched {
            transport,
            _alive: alive,
        };
        let mut only = Some(TokioIo::new(watched));
        let connect = move |_: Uri| {
            let lost = || io::Error::from(io::ErrorKind::ConnectionReset);
            std::future::ready(only.take().ok_or_else(lost))
        };
        // Only its form matters: it is connected already.
        let channel = Endpoint::from_static("http://agent")
            .connect_with_connector(tower::service_fn(connect))
            .await
            .map_err(io::Error::other)?;
        Ok(Connected { channel, broken })
    }
}

async fn open(
    node: &str,
    address: SocketAddr,
    security: &Security,
) -> io::Result<Box<dyn Transport>> {
    let stream = timeout(TCP_LIMIT, TcpStream::connect(address)).await??;
    stream.set_nodelay(true)?;
    setsockopt(&stream, sockopt::TcpUserTimeout, &UNACKNOWLEDGED_MS)?;
    setsockopt(&stream, sockopt::TcpKeepIdle, &KEEP_ALIVE_S)?;
    setsockopt(&stream, sockopt::TcpKeepInterval, &KEEP_ALIVE_S)?;
    setsockopt(&stream, sockopt::KeepAlive, &true)?;
    match security {
        Security::Plaintext => Ok(Box::new(stream)),
        Security::Mutual(credentials) => {
            timeout(TLS_LIMIT, handshake(node, stream, credentials)).await?
        }
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

/// Tells its end, by dropping the sender with it.
struct Watched {
    transport: Box<dyn Transport>,
    _alive: oneshot::Sender<()>,
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_read(context, buffer)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.transport).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_shutdown(context)
    }
}

/// Why a call did not reach the agent; `None`: it did, and this is the agent's answer.
pub(super) fn why_unreached(status: &Status) -> Option<String> {
    let unreached = matches!(
        status.code(),
        Code::Unavailable | Code::Unknown | Code::Cancelled
    );
    // Made up by our side, too, when there is no connection; the cause is what people need.
    let why = || {
        status
            .source()
            .map_or(status.message().to_owned(), in_words)
    };
    unreached.then(why)
}
