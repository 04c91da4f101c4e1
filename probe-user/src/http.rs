//! What every daemon serves over HTTP: `/live`, `/ready`, `/metrics`, and routes of its own.

use std::future::{Future, IntoFuture};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::watch;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// How long requests that are under way may still take once the server is told to stop.
const GRACE: Duration = Duration::from_millis(500);

/// Whether a daemon is ready; if not, why not, in words.
pub type Readiness = watch::Receiver<Result<(), String>>;

/// Why the HTTP server does not serve.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The address could not be bound.
    #[error("cannot listen on {listen} for HTTP (setting `http.listen`)")]
    Bind {
        /// The address.
        listen: SocketAddr,
        /// What `bind` or `listen` said.
        source: io::Error,
    },
    /// The server failed while running.
    #[error("the HTTP server on {listen} failed")]
    Serve {
        /// The address.
        listen: SocketAddr,
        /// What failed.
        source: io::Error,
    },
}

/// An HTTP server to be.
pub struct Serve {
    listen: SocketAddr,
    routes: Router,
}

impl Serve {
    /// A server on `listen` that shows the metrics of `registry`, and `ready`.
    pub fn new(listen: SocketAddr, registry: Arc<Registry>, ready: Readiness) -> Self {
        let routes = Router::new()
            .route("/live", get(|| async { "live\n" }))
            .route("/ready", get(show_ready).with_state(ready))
            .route("/metrics", get(show_metrics).with_state(registry));
        Self { listen, routes }
    }

    /// Adds a daemon's own routes.
    pub fn with_routes(mut self, routes: Router) -> Self {
        self.routes = self.routes.merge(routes);
        self
    }

    /// Binds the address. Port 0 takes any free port: see [`Bound::local_addr`].
    pub async fn bind(self) -> Result<Bound, HttpError> {
        let Self { listen, routes } = self;
        let bind_error = |source| HttpError::Bind { listen, source };
        let listener = TcpListener::bind(listen).await.map_err(bind_error)?;
        let local = listener.local_addr().map_err(bind_error)?;
        Ok(Bound {
            listener,
            local,
            routes,
        })
    }
}

/// An HTTP server with its address, not yet serving.
pub struct Bound {
    listener: TcpListener,
    local: SocketAddr,
    routes: Router,
}

impl Bound {
    /// The address that was bound.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Serves until `shutdown` is done; requests under way then get half a second more.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), HttpError> {
        let (stop, mut stopped) = watch::channel(());
        let drain = async move {
            // An error means that the sender is gone, which also means: stop.
            let _ = stopped.changed().await;
        };
        let server = axum::serve(self.listener, self.routes).with_graceful_shutdown(drain);
        let mut server = std::pin::pin!(server.into_future());
        let outcome = tokio::select! {
            outcome = &mut server => outcome,
            () = shutdown => {
                drop(stop);
                tokio::time::timeout(GRACE, server).await.unwrap_or(Ok(()))
            }
        };
        outcome.map_err(|source| HttpError::Serve {
            listen: self.local,
            source,
        })
    }
}

async fn show_ready(State(ready): State<Readiness>) -> (StatusCode, String) {
    match &*ready.borrow() {
        Ok(()) => (StatusCode::OK, "ready\n".to_owned()),
        Err(reason) => (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("not ready: {reason}\n"),
        ),
    }
}

async fn show_metrics(State(registry): State<Arc<Registry>>) -> Response {
    let mut body = String::new();
    match text::encode(&mut body, &registry) {
        Ok(()) => ([(header::CONTENT_TYPE, OPEN_METRICS)], body).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use prometheus_client::metrics::counter::Counter;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio::sync::oneshot;

    const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

    async fn request(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    fn server(ready: Readiness) -> Serve {
        let mut registry = Registry::default();
        let requests = Counter::<u64>::default();
        requests.inc();
        registry.register("pulsepath_requests", "Requests", requests);
        Serve::new(ANY, Arc::new(registry), ready)
    }

    #[tokio::test]
    async fn readiness_is_shown_with_its_reason_and_follows_changes() {
        let (ready, readiness) = watch::channel(Err("interface eth9 is missing".to_owned()));
        let bound = server(readiness).bind().await.unwrap();
        let address = bound.local_addr();
        tokio::spawn(bound.run(std::future::pending()));

        let before = request(address, "/ready").await;
        assert!(before.starts_with("HTTP/1.1 503"), "{before}");
        assert!(before.contains("interface eth9 is missing"), "{before}");
        assert!(request(address, "/live").await.starts_with("HTTP/1.1 200"));
        ready.send(Ok(())).unwrap();
        assert!(request(address, "/ready").await.starts_with("HTTP/1.1 200"));
    }

    #[tokio::test]
    async fn metrics_and_own_routes_are_served() {
        let (_ready, readiness) = watch::channel(Ok(()));
        let own = Router::new().route("/v1/own", get(|| async { "own" }));
        let bound = server(readiness).with_routes(own).bind().await.unwrap();
        let address = bound.local_addr();
        tokio::spawn(bound.run(std::future::pending()));

        assert!(
            request(address, "/metrics")
                .await
                .contains("pulsepath_requests_total 1")
        );
        assert!(request(address, "/v1/own").await.ends_with("own"));
    }

    #[tokio::test]
    async fn an_address_in_use_is_named() {
        let (_ready, readiness) = watch::channel(Ok(()));
        let first = server(readiness.clone()).bind().await.unwrap();
        let second = Serve {
            listen: first.local_addr(),
            ..server(readiness)
        }
        .bind()
        .await;
        let error = second.err().unwrap().to_string();
        assert!(error.contains(&first.local_addr().to_string()), "{error}");
    }

    #[tokio::test]
    async fn a_response_that_never_ends_does_not_keep_the_server_up() {
        let (_ready, readiness) = watch::channel(Ok(()));
        let endless = Router::new().route("/endless", get(|| async { Body::new(Endless) }));
        let bound = server(readiness).with_routes(endless).bind().await.unwrap();
        let address = bound.local_addr();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(bound.run(async {
            let _ = stopped.await;
        }));

        let mut stream = TcpStream::connect(address).await.unwrap();
        stream
            .write_all(b"GET /endless HTTP/1.1\r\nHost: test\r\n\r\n")
            .await
            .unwrap();
        stream.read_u8().await.unwrap();
        stop.send(()).unwrap();
        tokio::time::timeout(10 * GRACE, serving)
            .await
            .unwrap()
            .unwrap()
            .unwrap();
    }

    struct Endless;

    impl axum::body::HttpBody for Endless {
        type Data = axum::body::Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<Frame, Self::Error>>> {
            std::task::Poll::Pending
        }
    }

    type Frame = http_body::Frame<axum::body::Bytes>;
}
