//! A gRPC health server on one thread, loaded by h2load.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pulsepath_tests::run;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tonic::transport::server::TcpIncoming;

use super::wire::{SERVER, Wire};

const PORT: u16 = 9107;
/// Connections, and requests under way in each: what gives the highest rate.
const CONNECTIONS: &str = "4";
const STREAMS: &str = "100";
/// A gRPC message of no bytes: not compressed, length 0.
const EMPTY_REQUEST: [u8; 5] = [0; 5];

/// Answered health checks per second.
pub(super) fn rate(wire: &Wire, duration: Duration) -> Result<f64> {
    let listener = wire.server.enter(|| {
        let listener = std::net::TcpListener::bind(SocketAddr::new(SERVER.into(), PORT))?;
        listener.set_nonblocking(true)?;
        Ok::<_, std::io::Error>(listener)
    })??;
    let (stop, stopped) = oneshot::channel();
    std::thread::scope(|scope| {
        let server = scope.spawn(|| serve(listener, stopped));
        let rate = load(wire, duration);
        // The server has ended only if it failed, and then says so itself.
        let _ = stop.send(());
        match server.join() {
            Ok(outcome) => outcome.and(rate),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn serve(listener: std::net::TcpListener, stopped: oneshot::Receiver<()>) -> Result<()> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(async {
            let (_reporter, health) = tonic_health::server::health_reporter();
            let incoming =
                TcpIncoming::from(TcpListener::from_std(listener)?).with_nodelay(Some(true));
            tonic::transport::Server::builder()
                .add_service(health)
                .serve_with_incoming_shutdown(incoming, async {
                    // An error is the sender's end, which is a stop, too.
                    let _ = stopped.await;
                })
                .await
                .context("serve gRPC")
        })
}

fn load(wire: &Wire, duration: Duration) -> Result<f64> {
    let request = tempfile::NamedTempFile::new()?;
    std::fs::write(request.path(), EMPTY_REQUEST)?;
    let mut command: Command = wire.client.command("h2load");
    command
        .args([
            "--clients",
            CONNECTIONS,
            "--max-concurrent-streams",
            STREAMS,
        ])
        .args([
            "--header",
            "content-type: application/grpc",
            "--header",
            "te: trailers",
        ])
        .arg("--duration")
        .arg(duration.as_secs().max(1).to_string())
        .arg("--data")
        .arg(request.path())
        .arg(format!(
            "http://{SERVER}:{PORT}/grpc.health.v1.Health/Check"
        ));
    let report = run(&mut command).context("is h2load (Debian package nghttp2-client) there?")?;
    rate_in(&report)
}

/// From the line "finished in 2.00s, 157000.00 req/s, 9.1MB/s".
fn rate_in(report: &str) -> Result<f64> {
    ensure!(
        report.contains(" 0 failed, 0 errored"),
        "requests failed:\n{report}"
    );
    report
        .split_once(" req/s")
        .and_then(|(before, _)| before.rsplit(' ').next())
        .and_then(|rate| rate.parse().ok())
        .with_context(|| format!("no rate in the report of h2load:\n{report}"))
}
