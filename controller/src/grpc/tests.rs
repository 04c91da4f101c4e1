//! The interface, as a program sees it that acts on nodes.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::consumers::Consumers;
use crate::grpc::Bound;
use crate::grpc::proto::node_health_client::NodeHealthClient;
use crate::grpc::proto::services_client::ServicesClient;
use crate::grpc::proto::{
    GetRequest, ListRequest, ListServicesRequest, State, WatchRequest, WatchResponse,
};
use crate::monitor::Board;
use crate::services::Pick;
use tokio::sync::watch;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

/// Far longer than anything takes that is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

struct Scene {
    consumers: Consumers,
    picks: watch::Sender<BTreeMap<String, Pick>>,
    channel: Channel,
}

impl Scene {
    async fn new() -> Self {
        let board = Arc::new(Board::default());
        let consumers = Consumers::new(board.clone(), || {});
        let (picks, shown) = watch::channel(BTreeMap::new());
        let bound = Bound::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await;
        let bound = bound.unwrap();
        let url = format!("http://{}", bound.local_addr());
        tokio::spawn(bound.run(board, consumers.clone(), shown));
        let channel = Endpoint::from_shared(url).unwrap().connect().await;
        Self {
            consumers,
            picks,
            channel: channel.unwrap(),
        }
    }

    fn client(&self) -> NodeHealthClient<Channel> {
        NodeHealthClient::new(self.channel.clone())
    }

    async fn watch(&self, nodes: &[&str]) -> Streaming<WatchResponse> {
        let nodes = nodes.iter().map(|name| (*name).to_owned()).collect();
        let stream = self.client().watch(WatchRequest { nodes }).await;
        stream.unwrap().into_inner()
    }
}

async fn next(stream: &mut Streaming<WatchResponse>) -> WatchResponse {
    let message = tokio::time::timeout(PATIENCE, stream.message()).await;
    message.expect("nothing comes").unwrap().unwrap()
}

/// Waits, without blocking the server, which shares the thread.
async fn eventually(condition: impl Fn() -> bool) {
    let begin = std::time::Instant::now();
    while !condition() {
        assert!(begin.elapsed() < PATIENCE, "it never holds");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_watch_names_all_nodes_of_interest_and_then_those_that_change() {
    let scene = Scene::new().await;
    let mut stream = scene.watch(&["n2", "n1"]).await;
    assert_eq!(next(&mut stream).await.nodes, ["n1", "n2"]);
    scene.consumers.tell("n2");
    let change = next(&mut stream).await;
    assert_eq!((change.nodes, change.version), (vec!["n2".to_owned()], 1));
}

#[tokio::test]
async fn a_client_that_reads_nothing_loses_no_last_change_and_piles_nothing_up() {
    const CHANGES: u64 = 200_000;
    let scene = Scene::new().await;
    let names: Vec<String> = (0..100).map(|index| format!("n{index}")).collect();
    let interest: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut stream = scene.watch(&interest).await;
    for change in 0..CHANGES {
        scene.consumers.tell(&names[change as usize % names.len()]);
        if change % 1000 == 0 {
            // The server gets its chance to send as much as it may.
            tokio::task::yield_now().await;
        }
    }
    let mut messages = 0;
    while next(&mut stream).await.version < CHANGES {
        messages += 1;
    }
    assert!(messages < 1000, "{messages} messages for {CHANGES} changes");
}

#[tokio::test]
async fn interest_ends_with_the_stream() {
    let scene = Scene::new().await;
    let mut stream = scene.watch(&["n1"]).await;
    next(&mut stream).await;
    assert!(scene.consumers.want("n1"));
    drop(stream);
    eventually(|| !scene.consumers.want("n1")).await;
}

#[tokio::test]
async fn a_state_that_is_asked_for_says_which_changes_it_includes() {
    let scene = Scene::new().await;
    scene.consumers.tell("n1");
    scene.consumers.tell("n1");
    let node = "n1".to_owned();
    let answer = scene.client().get(GetRequest { node }).await.unwrap();
    let answer = answer.into_inner();
    assert_eq!(answer.version, 2);
    assert_eq!(answer.node.unwrap().state(), State::Unknown);
    let list = scene.client().list(ListRequest {}).await.unwrap();
    assert_eq!(list.into_inner().version, 2);
}

#[tokio::test]
async fn services_are_listed_with_who_is_picked() {
    let scene = Scene::new().await;
    let pick = |node: Option<&str>| Pick {
        node: node.map(str::to_owned),
        since: SystemTime::UNIX_EPOCH + Duration::from_millis(7),
    };
    let picks = [("dns", pick(Some("n1"))), ("mail", pick(None))];
    let picks = picks.map(|(name, pick)| (name.to_owned(), pick));
    scene.picks.send_replace(BTreeMap::from(picks));
    let mut client = ServicesClient::new(scene.channel.clone());
    let list = client.list(ListServicesRequest {}).await.unwrap();
    let services = list.into_inner().services;
    let shown: Vec<_> = services
        .iter()
        .map(|service| (service.name.as_str(), service.node.as_deref()))
        .collect();
    assert_eq!(shown, [("dns", Some("n1")), ("mail", None)]);
    assert_eq!(services[0].since_unix_ms, 7);
}

#[tokio::test]
async fn reflection_names_every_service() {
    let scene = Scene::new().await;
    let mut client = ServerReflectionClient::new(scene.channel.clone());
    let ask = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let answers = client.server_reflection_info(futures_util::stream::iter([ask]));
    let mut answers = answers.await.unwrap().into_inner();
    let answer = answers.message().await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
        panic!("{answer:?}");
    };
    let names: Vec<&str> = list.service.iter().map(|service| &*service.name).collect();
    for name in [
        "pulsepath.health.v1.NodeHealth",
        "pulsepath.health.v1.Services",
        "grpc.health.v1.Health",
    ] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
}
