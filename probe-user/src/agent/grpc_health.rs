//! `grpc.health.v1.Health` for whoever checks nodes from outside, such as OVN-Kubernetes.

use std::io;
use std::net::SocketAddr;

use anyhow::{Context, Result};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::transport::Server;
use tonic_health::ServingStatus;
use tonic_health::server::{HealthReporter, health_reporter};
use tracing::{error, info};

use super::in_words;
use super::settings::GrpcHealthSettings;
use crate::channel::{ServerCertificate, accept};

/// The whole agent, and the name under which OVN-Kubernetes asks for its egress IPs.
const SERVICES: [&str; 2] = ["", "Service_Egress_IP"];

/// What it is called in the log.
const SERVER: &str = "grpc.health.v1";

/// Serves the health service if the settings ask for it, in a task of its own: SERVING while
/// `serving` holds.
pub(super) async fn start(
    settings: &GrpcHealthSettings,
    serving: watch::Receiver<bool>,
) -> Result<()> {
    let Some(listen) = settings.listen else {
        return Ok(());
    };
    let certificate = settings.certificate()?.map(ServerCertificate::open);
    let certificate = certificate.transpose()?;
    let (listener, local) = bind(listen)
        .await
        .with_context(|| format!("cannot listen on {listen} (setting `grpc_health.listen`)"))?;
    let (reporter, service) = health_reporter();
    report(&reporter, *serving.borrow()).await;
    info!(address = %local, tls = certificate.is_some(), "serving {SERVER}");
    let router = Server::builder().add_service(service);
    tokio::spawn(async move {
        let server = async {
            match certificate {
                None => {
                    let connections = accept::plain(listener, SERVER);
                    router.serve_with_incoming(connections).await
                }
                Some(certificate) => {
                    let config = move || certificate.server();
                    let connections = accept::secured(listener, SERVER, config);
                    router.serve_with_incoming(connections).await
                }
            }
        };
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
