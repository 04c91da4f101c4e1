use super::*;
use crate::agent::settings::CheckKind;
use crate::settings::HumanDuration;
use axum::Router;
use axum::http::StatusCode;
use axum::response::Redirect;
use axum::routing::get;
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
use tokio_stream::wrappers::TcpListenerStream;

fn check(kind: CheckKind, target: impl ToString) -> Check {
    Check {
        name: "it".to_owned(),
        kind,
        target: target.to_string(),
        period: HumanDuration(Duration::from_millis(10)),
        timeout: HumanDuration(Duration::from_millis(200)),
    }
}

async fn ask(kind: CheckKind, target: impl ToString) -> Result<(), String> {
    let check = check(kind, target);
    timeout(check.timeout.0, Question::new(&check).ask())
        .await
        .unwrap_or(Err("no answer".to_owned()))
}

async fn listen() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

/// A port on which nobody listens.
async fn closed_port() -> u16 {
    listen().await.local_addr().unwrap().port()
}

async fn becomes(checks: &Checks, wanted: LocalChecks) {
    let wait = async {
        while checks.verdict() != wanted {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(Duration::from_secs(10), wait)
        .await
        .unwrap_or_else(|_| {
            panic!("the checks stay {:?}, never {wanted:?}", checks.verdict());
        });
}

#[tokio::test]
async fn a_tcp_check_passes_while_somebody_listens() {
    let listener = listen().await;
    ask(CheckKind::Tcp, listener.local_addr().unwrap())
        .await
        .unwrap();
    let refused = ask(CheckKind::Tcp, format!("127.0.0.1:{}", closed_port().await)).await;
    assert!(refused.unwrap_err().contains("refused"));
}

#[tokio::test]
async fn a_unix_check_passes_while_somebody_listens() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cni.sock");
    let _listener = UnixListener::bind(&path).unwrap();
    ask(CheckKind::Unix, path.display()).await.unwrap();
    let missing = directory.path().join("other.sock");
    assert!(ask(CheckKind::Unix, missing.display()).await.is_err());
}

#[tokio::test]
async fn an_http_check_passes_on_a_2xx_status_only() {
    let listener = listen().await;
    let address = listener.local_addr().unwrap();
    let routes = Router::new()
        .route("/moved", get(|| async { Redirect::temporary("/good") }))
        .route("/good", get(|| async { StatusCode::NO_CONTENT }))
        .route("/bad", get(|| async { StatusCode::SERVICE_UNAVAILABLE }));
    tokio::spawn(axum::serve(listener, routes).into_future());
    ask(CheckKind::Http, format!("http://{address}/good"))
        .await
        .unwrap();
    let bad = ask(CheckKind::Http, format!("http://{address}/bad"))
        .await
        .unwrap_err();
    assert!(bad.contains("503"), "{bad}");
    let moved = ask(CheckKind::Http, format!("http://{address}/moved"))
        .await
        .unwrap_err();
    assert!(moved.contains("307"), "{moved}");
}

#[tokio::test]
async fn a_grpc_check_passes_while_the_service_is_serving() {
    let listener = listen().await;
    let address = listener.local_addr().unwrap();
    let (reporter, service) = tonic_health::server::health_reporter();
    let server = tonic::transport::Server::builder()
        .add_service(service)
        .serve_with_incoming(TcpListenerStream::new(listener));
    tokio::spawn(server);
    ask(CheckKind::Grpc, address).await.unwrap();
    let not_serving = tonic_health::ServingStatus::NotServing;
    reporter.set_service_status("cni", not_serving).await;
    let refused = ask(CheckKind::Grpc, format!("{address}/cni"))
        .await
        .unwrap_err();
    assert!(refused.contains("NOT_SERVING"), "{refused}");
}

#[tokio::test]
async fn an_answer_that_does_not_come_in_time_is_none() {
    // A listener whose connections nobody ever answers.
    let listener = listen().await;
    let address = listener.local_addr().unwrap();
    let silent = ask(CheckKind::Http, format!("http://{address}/")).await;
    assert_eq!(silent.unwrap_err(), "no answer");
}

#[tokio::test]
async fn the_verdict_follows_every_check() {
    let listener = listen().await;
    let address = listener.local_addr().unwrap();
    let good = check(CheckKind::Tcp, address);
    let checks = Checks::start(std::slice::from_ref(&good));
    assert_eq!(
        checks.verdict(),
        LocalChecks::Failing,
        "before the first answer"
    );
    becomes(&checks, LocalChecks::Passing).await;
    drop(listener);
    becomes(&checks, LocalChecks::Failing).await;
    let _again = TcpListener::bind(address).await.unwrap();
    becomes(&checks, LocalChecks::Passing).await;
}

#[tokio::test]
async fn without_checks_there_is_nothing_to_fail() {
    assert_eq!(Checks::start(&[]).verdict(), LocalChecks::None);
}
