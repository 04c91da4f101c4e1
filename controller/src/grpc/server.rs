//! The server.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic_health::server::health_reporter;
use tonic_reflection::server::{Builder, Error as ReflectionError};

use super::proto::DESCRIPTORS;
use super::proto::node_health_server::NodeHealthServer;
use super::proto::services_server::ServicesServer;
use super::{node_health, services};
use crate::consumers::Consumers;
use crate::monitor::Board;
use crate::services::Picks;

/// How often a client is asked whether it is still there: one that is gone must not keep nodes
/// interesting.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Why the gRPC interface is not served.
#[derive(Debug, thiserror::Error)]
pub enum GrpcError {
    /// The address could not be bound.
    #[error("cannot listen on {listen} for gRPC (setting `grpc.listen`)")]
    Bind {
        /// The address.
        listen: SocketAddr,
        /// What `bind` or `listen` said.
        source: io::Error,
    },
    /// Server reflection cannot be offered.
    #[error("cannot describe the gRPC interface")]
    Reflection(#[from] ReflectionError),
    /// The server failed while running.
    #[error("the gRPC server on {listen} failed")]
    Serve {
        /// The address.
        listen: SocketAddr,
        /// What failed.
        source: tonic::transport::Error,
    },
}

/// The gRPC server with its address, not yet serving.
pub struct Bound {
    listener: TcpListener,
    local: SocketAddr,
}

impl Bound {
    /// Binds the address. Port 0 takes any free port: see [`Bound::local_addr`].
    ///
    /// # Errors
    ///
    /// [`GrpcError::Bind`].
    pub async fn bind(listen: SocketAddr) -> Result<Self, GrpcError> {
        let failed = |source| GrpcError::Bind { listen, source };
        let listener = TcpListener::bind(listen).await.map_err(failed)?;
        let local = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, local })
    }

    /// The address that was bound.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Serves for as long as this future is polled.
    ///
    /// # Errors
    ///
    /// If the server fails.
    pub async fn run(
        self,
        board: Arc<Board>,
        consumers: Consumers,
        picks: Picks,
    ) -> Result<(), GrpcError> {
        let node_health = NodeHealthServer::new(node_health::Service { board, consumers });
        let services = ServicesServer::new(services::Service { picks });
        let (reporter, health) = health_reporter();
        reporter
            .set_serving::<NodeHealthServer<node_health::Service>>()
            .await;
        reporter
            .set_serving::<ServicesServer<services::Service>>()
            .await;
        let server = Server::builder()
            .http2_keepalive_interval(Some(KEEP_ALIVE))
            .http2_keepalive_timeout(Some(KEEP_ALIVE))
            .add_service(node_health)
            .add_service(services)
            .add_service(health)
            .add_service(reflection().build_v1()?)
            // What grpcurl and others ask for that are older.
            .add_service(reflection().build_v1alpha()?);
        let served = server
            .serve_with_incoming(TcpIncoming::from(self.listener).with_nodelay(Some(true)))
            .await;
        served.map_err(|source| GrpcError::Serve {
            listen: self.local,
            source,
        })
    }
}

fn reflection() -> Builder<'static> {
    Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}
