//! What the controller publishes besides its HTTP interface's nodes and gateways: the gRPC interface,
//! and who is picked for each service.

use std::collections::{BTreeMap, HashSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use probe_user::logging::in_words;
use probe_user::settings::Invalid;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Settings;
use crate::api::{Service, ServiceList, Timestamp};
use crate::consumers::Consumers;
use crate::grpc::{Bound, GrpcError};
use crate::monitor::Board;
use crate::services::{self, Group, Pick, Picks};

/// The gRPC interface.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct GrpcSettings {
    /// Where it listens.
    pub listen: SocketAddr,
}

impl Default for GrpcSettings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 9864)),
        }
    }
}

/// A group of nodes of which one is picked.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ServiceSettings {
    /// Its name, unique.
    pub name: String,
    /// Labels that a node needs to be in the group; none: every node is.
    #[serde(default)]
    pub nodes: BTreeMap<String, String>,
}

/// Whether every service has a name of its own.
pub(crate) fn check_services(services: &[ServiceSettings]) -> Result<(), Invalid> {
    let mut names = HashSet::new();
    for (index, service) in services.iter().enumerate() {
        if service.name.is_empty() || !names.insert(&service.name) {
            let accepted = "must not be empty, and another name than that of an earlier service";
            let key = format!("services[{index}].name");
            return Err(Invalid::new(key, &service.name, accepted));
        }
    }
    Ok(())
}

/// Services that are published.
pub(crate) struct Services {
    /// Who is picked.
    pub(crate) picks: Picks,
    /// Takes the groups that are configured from now on.
    pub(crate) groups: watch::Sender<Vec<Group>>,
}

/// Picks for each service, going on from `kept`, and serves gRPC, in `tasks`.
pub(crate) async fn publish(
    settings: &Settings,
    kept: BTreeMap<String, Pick>,
    board: &Arc<Board>,
    consumers: &Consumers,
    tasks: &mut JoinSet<()>,
) -> Result<Services, GrpcError> {
    let bound = Bound::bind(settings.grpc.listen).await?;
    tracing::info!(address = %bound.local_addr(), "serving gRPC");
    let (sender, picks) = watch::channel(kept);
    let (groups, named) = watch::channel(groups(&settings.services));
    tasks.spawn(services::run(
        named,
        board.clone(),
        consumers.clone(),
        sender,
    ));
    let serving = bound.run(board.clone(), consumers.clone(), picks.clone());
    tasks.spawn(async move {
        if let Err(error) = serving.await {
            tracing::error!(error = in_words(&error), "the gRPC server has ended");
        }
    });
    Ok(Services { picks, groups })
}

/// The groups of nodes of which one each is picked.
pub(crate) fn groups(services: &[ServiceSettings]) -> Vec<Group> {
    let group = |service: &ServiceSettings| Group {
        name: service.name.clone(),
        selector: service.nodes.clone(),
    };
    services.iter().map(group).collect()
}

/// `GET /v1/services`.
pub(crate) fn routes(picks: Picks) -> Router {
    Router::new()
        .route("/v1/services", get(list))
        .with_state(picks)
}

async fn list(State(picks): State<Picks>) -> Json<ServiceList> {
    let service = |(name, pick): (&String, &Pick)| Service {
        name: name.clone(),
        node: pick.node.clone(),
        since: Timestamp(pick.since),
    };
    let services = picks.borrow().iter().map(service).collect();
    Json(ServiceList { services })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_has_a_name_of_its_own() {
        let service = |name: &str| ServiceSettings {
            name: name.to_owned(),
            nodes: BTreeMap::new(),
        };
        check_services(&[service("dns"), service("mail")]).unwrap();
        for names in [["dns", "dns"], ["dns", ""]] {
            let error = check_services(&names.map(service)).unwrap_err().to_string();
            assert!(error.contains("`services[1].name`"), "{error}");
        }
    }
}
