//! `grpc.health.v1.Health` for whoever checks nodes from outside, such as OVN-Kubernetes.

use std::io;
use std::net::SocketAddr;

use anyhow::{Context, Result};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic_health::ServingStatus;
use tonic_health::server::{HealthReporter, health_reporter};
use tracing::{error, info};

use super::in_words;

/// The whole agent, and the name under which OVN-Kubernetes asks for its egress IPs.
const SERVICES: [&str; 2] = ["", "Service_Egress_IP"];

/// Serves the health service on `listen`, in a task of its own: SERVING while `serving` holds.
pub(super) async fn start(listen: SocketAddr, serving: watch::Receiver<bool>) -> Result<()> {
    let (listener, local) = bind(listen)
        .await
        .with_context(|| format!("cannot listen on {listen} (setting `grpc_health.listen`)"))?;
    let (reporter, service) = health_reporter();
    report(&reporter, *serving.borrow()).await;
    info!(address = %local, "serving grpc.health.v1");
    let server = Server::builder()
        .add_service(service)
        .serve_with_incoming(TcpIncoming::from(listener));
    tokio::spawn(async move {
        tokio::select! {
            ended = server => {
                if let Err(error) = ended {
                    error!(error = in_words(&error), "the gRPC health service has ended");
                }
            }
            () = follow(reporter, serving) => {}
        }
    });
    Ok(())
}

async fn bind(listen: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(listen).await?;
    let local = listener.local_addr()?;
    Ok((listener, local))
}

/// Reports changes until there can be none any more.
async fn follow(reporter: HealthReporter, mut serving: watch::Receiver<bool>) {
    while serving.changed().await.is_ok() {
        let now = *serving.borrow_and_update();
        report(&reporter, now).await;
    }
}

async fn report(reporter: &HealthReporter, serving: bool) {
    let status = if serving {
        ServingStatus::Serving
    } else {
        ServingStatus::NotServing
    };
    for service in SERVICES {
        reporter.set_service_status(service, status).await;
    }
}
