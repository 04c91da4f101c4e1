//! One question of a local check, over the protocol that it is configured with.

use reqwest::Client;
use reqwest::redirect::Policy;
use tokio::net::{TcpStream, UnixStream};
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::agent::in_words;
use crate::agent::settings::{Check, CheckKind};

/// What is asked again and again.
pub(super) enum Question {
    Tcp(String),
    Http {
        client: Result<Client, String>,
        url: String,
    },
    Grpc {
        address: String,
        service: String,
    },
    Unix(String),
}

impl Question {
    pub(super) fn new(check: &Check) -> Self {
        let target = check.target.clone();
        match check.kind {
            CheckKind::Tcp => Self::Tcp(target),
            CheckKind::Http => {
                // Neither a proxy's answer nor that of a redirect's target is the one asked for.
                let client = Client::builder()
                    .no_proxy()
                    .redirect(Policy::none())
                    .build();
                Self::Http {
                    client: client.map_err(|error| in_words(&error)),
                    url: target,
                }
            }
            CheckKind::Grpc => {
                let (address, service) = target.split_once('/').unwrap_or((&target, ""));
                Self::Grpc {
                    address: format!("http://{address}"),
                    service: service.to_owned(),
                }
            }
            CheckKind::Unix => Self::Unix(target),
        }
    }

    /// Asks once; the caller sets the time limit. The error says what is wrong, in words.
    pub(super) async fn ask(&self) -> Result<(), String> {
        match self {
            Self::Tcp(address) => TcpStream::connect(address)
                .await
                .map(drop)
                .map_err(|error| in_words(&error)),
            Self::Unix(path) => UnixStream::connect(path)
                .await
                .map(drop)
                .map_err(|error| in_words(&error)),
            Self::Http { client, url } => {
                ask_http(client.as_ref().map_err(String::clone)?, url).await
            }
            Self::Grpc { address, service } => ask_grpc(address, service).await,
        }
    }
}

async fn ask_http(client: &Client, url: &str) -> Result<(), String> {
    let status = client
        .get(url)
        .send()
        .await
        .map_err(|error| in_words(&error))?
        .status();
    if status.is_success() {
        Ok(())
    } else {
        Err(format!("status {status}"))
    }
}

async fn ask_grpc(address: &str, service: &str) -> Result<(), String> {
    // A new connection each time: an old one may lead to a process that is gone.
    let endpoint = Channel::from_shared(address.to_owned()).map_err(|error| in_words(&error))?;
    let channel = endpoint.connect().await.map_err(|error| in_words(&error))?;
    let request = HealthCheckRequest {
        service: service.to_owned(),
    };
    let answer = HealthClient::new(channel)
        .check(request)
        .await
        .map_err(|error| in_words(&error))?;
    match answer.into_inner().status() {
        ServingStatus::Serving => Ok(()),
        other => Err(format!("status {}", other.as_str_name())),
    }
}
