//! `pulsepath.health.v1.NodeHealth`.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::stream::{self, Stream};
use tonic::{Request, Response, Status};

use super::proto::node_health_server::NodeHealth;
use super::proto::{
    GetRequest, GetResponse, ListRequest, ListResponse, Node, State, WatchRequest, WatchResponse,
};
use crate::consumers::{Consumers, Interest, Watcher};
use crate::health;
use crate::monitor::{Board, NodeView};

/// How consumers that watch are called in the log.
const CONSUMER: &str = "grpc";

pub(super) struct Service {
    pub(super) board: Arc<Board>,
    pub(super) consumers: Consumers,
}

#[tonic::async_trait]
impl NodeHealth for Service {
    async fn get(&self, request: Request<GetRequest>) -> Result<Response<GetResponse>, Status> {
        let name = request.into_inner().node;
        // Before the state is read, so that the state includes it.
        let version = self.consumers.version();
        let node = match self.board.node(&name) {
            Some(view) => node(view),
            None => unknown(name),
        };
        let node = Some(node);
        Ok(Response::new(GetResponse { node, version }))
    }

    async fn list(&self, _: Request<ListRequest>) -> Result<Response<ListResponse>, Status> {
        let version = self.consumers.version();
        let nodes = self.board.nodes().into_iter().map(node).collect();
        Ok(Response::new(ListResponse { nodes, version }))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<WatchResponse, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let nodes = request.into_inner().nodes;
        let interest = match nodes.is_empty() {
            true => Interest::All,
            false => Interest::Nodes(nodes.into_iter().collect()),
        };
        let watcher = self.consumers.watch(CONSUMER, interest);
        Ok(Response::new(Box::pin(changes(watcher))))
    }
}

/// What changes, as long as anyone reads. It is asked for only when there is room to send it: until
/// then names are put together.
fn changes(watcher: Watcher) -> impl Stream<Item = Result<WatchResponse, Status>> + Send {
    stream::unfold(watcher, |watcher| async {
        let changes = watcher.changes().await;
        let response = WatchResponse {
            nodes: changes.nodes.into_iter().collect(),
            version: changes.version,
        };
        Some((Ok(response), watcher))
    })
}

fn node(view: NodeView) -> Node {
    Node {
        name: view.name,
        state: state(view.state).into(),
        reason: view.reason.to_string(),
        since_unix_ms: unix_ms(view.since),
        incarnation: view.incarnation,
        labels: view.labels.into_iter().collect(),
    }
}

fn unknown(name: String) -> Node {
    Node {
        name,
        state: State::Unknown.into(),
        reason: "there is no node of this name".to_owned(),
        ..Node::default()
    }
}

fn state(state: health::State) -> State {
    match state {
        health::State::Unknown => State::Unknown,
        health::State::Available => State::Available,
        health::State::Unavailable => State::Unavailable,
        health::State::Unreachable => State::Unreachable,
    }
}

/// Milliseconds since 1970; 0 for times before.
pub(super) fn unix_ms(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
