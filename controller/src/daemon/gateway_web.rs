//! What the HTTP interface says of gateways, and which orders it takes.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use tokio::sync::oneshot;

use super::egress::{EgressHandle, Request};
use super::leader_web::Leading;
use super::tunnel_web;
use crate::api::{Condition, Drained, Error, GatewayList};
use crate::monitor::Board;
use crate::tunnels::Collector;

/// The routes.
pub(crate) fn routes(leading: Leading, board: Arc<Board>, tunnels: Collector) -> Router {
    let explaining = (leading.clone(), board, tunnels);
    Router::new()
        .route("/v1/explain/{subject}", get(explain))
        .with_state(explaining)
        .merge(orders(leading))
}

fn orders(leading: Leading) -> Router {
    Router::new()
        .route("/v1/gateways", get(list))
        .route("/v1/nodes/{name}/drain", post(drain))
        .route("/v1/nodes/{name}/undrain", post(undrain))
        .with_state(leading)
}

async fn list(State(leading): State<Leading>) -> Result<Json<GatewayList>, Response> {
    let egress = leading.deciding()?;
    Ok(Json(egress.planner().view(Instant::now())))
}

/// Of a node, its lease and what deserves attention are part of the explanation.
async fn explain(
    State((leading, board, tunnels)): State<(Leading, Arc<Board>, Collector)>,
    Path(subject): Path<String>,
) -> Response {
    let egress = match leading.deciding() {
        Ok(egress) => egress,
        Err(response) => return response,
    };
    let now = Instant::now();
    let explanation = egress.planner().explain(now, &subject);
    let node = board.node(&subject);
    let lease = node.as_ref().and_then(|node| node.lease_left(now));
    let tunnelled = node.as_ref().and_then(|node| node.tunnelled);
    let conditions = node.map_or(Vec::new(), |node| node.conditions(now));
    let sentence = |it: Condition| format!("{}: {}.", it.name, it.message);
    match explanation {
        Some(mut explanation) => {
            let one_way = tunnel_web::sentences(&tunnels, &subject).await;
            let lease = lease.map(|left| {
                let left = left.as_secs_f64();
                format!("It holds its lease, for {left:.1} s more unless that is extended.")
            });
            let tunnelled = tunnelled.map(|at| {
                let ago = now.saturating_duration_since(at).as_secs_f64();
                format!("By its last reply it received a packet from a tunnel {ago:.1} s ago.")
            });
            let conditions = conditions.into_iter().map(sentence);
            let facts = lease.into_iter().chain(tunnelled);
            let more = facts.chain(conditions).chain(one_way);
            explanation.sentences.extend(more);
            Json(explanation).into_response()
        }
        None => not_found(format!("{subject:?} is neither a node nor an egress IP")),
    }
}

async fn drain(State(leading): State<Leading>, Path(name): Path<String>) -> Response {
    match leading.deciding() {
        Ok(egress) => set_drained(egress, name, true).await,
        Err(response) => response,
    }
}

async fn undrain(State(leading): State<Leading>, Path(name): Path<String>) -> Response {
    match leading.deciding() {
        Ok(egress) => set_drained(egress, name, false).await,
        Err(response) => response,
    }
}

/// Answers once it is recorded.
async fn set_drained(egress: &EgressHandle, node: String, drained: bool) -> Response {
    let (done, answer) = oneshot::channel();
    egress.ask(Request::Drain {
        node: node.clone(),
        drained,
        done,
    });
    match answer.await {
        Ok(true) => {
            let addresses = egress.planner().addresses_of(&node);
            Json(Drained {
                node,
                drained,
                addresses,
            })
            .into_response()
        }
        Ok(false) => not_found(format!("there is no node named {node:?}")),
        Err(_) => {
            let error = "the controller is stopping, or does not decide any more".to_owned();
            (StatusCode::SERVICE_UNAVAILABLE, Json(Error { error })).into_response()
        }
    }
}

fn not_found(error: String) -> Response {
    (StatusCode::NOT_FOUND, Json(Error { error })).into_response()
}
