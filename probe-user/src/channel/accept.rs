//! Accepts connections, with TLS or without.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use futures_util::stream;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::{debug, warn};

/// A peer that has not shown who it is after this time is given up.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// So many peers may be showing who they are at once; more are turned away.
const HANDSHAKES: usize = 256;
/// Pause after the system could not accept a connection, so that the log is not flooded.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The connections to a server, as they are made. `server` is what it is called in the log.
pub(crate) fn plain(
    listener: TcpListener,
    server: &'static str,
) -> impl Stream<Item = io::Result<TcpStream>> {
    stream::unfold(listener, move |listener| async move {
        let (connection, _) = next(&listener, server).await;
        Some((Ok(connection), listener))
    })
}

/// As [`plain`], each with TLS as configured at its time. Accepts in a task of its own, which ends
/// when the stream is dropped.
pub(crate) fn secured(
    listener: TcpListener,
    server: &'static str,
    config: impl Fn() -> Arc<ServerConfig> + Send + 'static,
) -> impl Stream<Item = io::Result<TlsStream<TcpStream>>> {
    let (accepted, connections) = mpsc::channel(1);
    tokio::spawn(accept(listener, server, config, accepted));
    stream::unfold(connections, |mut connections| async {
        let connection = connections.recv().await?;
        Some((Ok(connection), connections))
    })
}

/// Accepts connections as long as anybody wants them. A peer that takes its time holds no other up.
async fn accept(
    listener: TcpListener,
    server: &'static str,
    config: impl Fn() -> Arc<ServerConfig> + Send,
    accepted: mpsc::Sender<TlsStream<TcpStream>>,
) {
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES));
    loop {
        let (connection, peer) = tokio::select! {
            next = next(&listener, server) => next,
            () = accepted.closed() => return,
        };
        let Ok(permit) = handshakes.clone().try_acquire_owned() else {
            warn!(%peer, server, "turned away: too many peers have not shown who they are");
            continue;
        };
        let acceptor = TlsAcceptor::from(config());
        let accepted = accepted.clone();
        tokio::spawn(async move {
            let handshake = tokio::time::timeout(HANDSHAKE, acceptor.accept(connection)).await;
            drop(permit);
            match handshake {
                Ok(Ok(connection)) => {
                    debug!(%peer, server, "a peer has connected");
                    // An error means that the server has ended.
                    let _ = accepted.send(connection).await;
                }
                Ok(Err(error)) => warn!(%peer, server, %error, "turned away"),
                Err(_) => warn!(%peer, server, "turned away: it has not shown who it is in time"),
            }
        });
    }
}

async fn next(listener: &TcpListener, server: &str) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok((connection, peer)) => {
                // Without it requests wait for acknowledgements; if it fails, they do.
                let _ = connection.set_nodelay(true);
                return (connection, peer);
            }
            Err(error) => {
                warn!(server, %error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
