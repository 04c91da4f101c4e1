//! The HTTP interface.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use bytes::Bytes;
use futures_util::stream::{self, Stream};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::Settings;
use super::leader_web::Leading;
use crate::api::{Controller, Error, NodeList, StreamLine, Timestamp, Transition, milliseconds};
use crate::monitor::{Board, Reading};

/// What requests are answered from.
pub(crate) struct Web {
    board: Arc<Board>,
    transitions: broadcast::Sender<Transition>,
    leading: Leading,
    started: Timestamp,
    period: Duration,
    timeout: Duration,
}

impl Web {
    pub(crate) fn new(
        board: Arc<Board>,
        transitions: broadcast::Sender<Transition>,
        leading: Leading,
        settings: &Settings,
    ) -> Self {
        Self {
            board,
            transitions,
            leading,
            started: Timestamp(SystemTime::now()),
            period: settings.period(),
            timeout: settings.timeout(),
        }
    }

    /// The controller's own routes.
    pub(crate) fn routes(self) -> Router {
        Router::new()
            .route("/v1/nodes", get(list))
            .route("/v1/nodes/{name}", get(node))
            .route("/v1/transitions", get(transitions))
            .with_state(Arc::new(self))
    }
}

async fn list(State(web): State<Arc<Web>>) -> Json<NodeList> {
    let now = Reading::take();
    let nodes = web
        .board
        .nodes()
        .iter()
        .map(|view| view.to_api(now, web.timeout))
        .collect();
    let (prober, _) = web.board.prober();
    let controller = Controller {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started: web.started,
        period_ms: milliseconds(web.period),
        timeout_ms: milliseconds(web.timeout),
        lag_ms: milliseconds(prober.lag.last),
        leads: web.leading.egress.leads(),
        leader: web.leading.leader(),
    };
    Json(NodeList { controller, nodes })
}

async fn node(State(web): State<Arc<Web>>, Path(name): Path<String>) -> Response {
    match web.board.node(&name) {
        Some(view) => Json(view.to_api(Reading::take(), web.timeout)).into_response(),
        None => {
            let error = format!("there is no node named {name:?}");
            (StatusCode::NOT_FOUND, Json(Error { error })).into_response()
        }
    }
}

async fn transitions(State(web): State<Arc<Web>>) -> Response {
    let body = Body::from_stream(lines(web.transitions.subscribe()));
    ([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response()
}

/// The transitions from now on. Whoever does not keep up is told how many they missed, and holds
/// nobody up.
fn lines(
    transitions: broadcast::Receiver<Transition>,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold(transitions, |mut transitions| async {
        let line = match transitions.recv().await {
            Ok(transition) => StreamLine::Transition(transition),
            Err(RecvError::Lagged(missed)) => StreamLine::Missed { missed },
            Err(RecvError::Closed) => return None,
        };
        let mut text = serde_json::to_string(&line).ok()?;
        text.push('\n');
        Some((Ok(Bytes::from(text)), transitions))
    })
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;

    use super::*;
    use crate::health::{Reason, State as NodeState};

    fn transition(sequence: u64) -> Transition {
        Transition {
            sequence,
            at: Timestamp(SystemTime::UNIX_EPOCH),
            node: "n1".to_owned(),
            from: NodeState::Available,
            to: NodeState::Unreachable,
            reason: Reason::NoReply,
            silence_ms: 1000.5,
            last_reply: None,
            last_tunnel_packet: None,
            lag_ms: 0.0,
        }
    }

    #[tokio::test]
    async fn each_transition_is_a_line_that_reads_back() {
        let (sender, receiver) = broadcast::channel(4);
        sender.send(transition(1)).unwrap();
        let mut lines = Box::pin(lines(receiver));
        let line = lines.next().await.unwrap().unwrap();
        assert!(line.ends_with(b"\n"));
        let read: StreamLine = serde_json::from_slice(&line).unwrap();
        assert_eq!(read, StreamLine::Transition(transition(1)));
    }

    #[tokio::test]
    async fn a_slow_client_is_told_how_many_it_missed() {
        let (sender, receiver) = broadcast::channel(4);
        for sequence in 1..=10 {
            sender.send(transition(sequence)).unwrap();
        }
        let mut lines = Box::pin(lines(receiver));
        let first = lines.next().await.unwrap().unwrap();
        let read: StreamLine = serde_json::from_slice(&first).unwrap();
        assert_eq!(read, StreamLine::Missed { missed: 6 });
        let next = lines.next().await.unwrap().unwrap();
        let read: StreamLine = serde_json::from_slice(&next).unwrap();
        assert_eq!(read, StreamLine::Transition(transition(7)));
    }
}
