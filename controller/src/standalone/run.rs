//! The daemon.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt as _;
use probe_user::channel::{SecurityChoice, TlsError};
use probe_user::http::{HttpError, Serve};
use probe_user::logging::{self, LoggingError};
use probe_user::session::{ProbeSocket, SocketError, SocketOptions};
use probe_user::settings::HumanDuration;
use prometheus_client::registry::Registry;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::task::{JoinError, JoinHandle, JoinSet};

use super::agents::Agents;
use super::egress::Egress;
use super::gateway_web;
use super::keeper::StateKeeper;
use super::publish::{self, publish};
use super::reload::{ConfigError, Loaded, Reloader, load};
use super::report::Reporter;
use super::web::Web;
use super::{Kept, Problem, StateFile, StateFileError};
use crate::consumers::{Consumer, Consumers, Interest};
use crate::failover::Planner;
use crate::grpc::GrpcError;
use crate::metrics::{FailoverMetrics, Metrics};
use crate::monitor::driver::{self, Control, DriverError, Running};
use crate::monitor::{Board, Monitor, Notice, Outlets, Reading, Record};

/// How many transitions a client that watches may be behind before it misses some.
const BACKLOG: usize = 1024;

/// What to run.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Overrides one setting, such as `period=50ms`; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// Why the controller did not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A node in the configuration.
    #[error(transparent)]
    Node(#[from] Problem),
    /// The log.
    #[error(transparent)]
    Logging(#[from] LoggingError),
    /// The state file.
    #[error(transparent)]
    StateFile(#[from] StateFileError),
    /// The prober's sockets.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The prober's thread.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The control channel's certificates.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The HTTP interface.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The gRPC interface.
    #[error(transparent)]
    Grpc(#[from] GrpcError),
    /// The system gives no random numbers.
    #[error("cannot choose random sequence numbers: getrandom: {0}")]
    Random(getrandom::Error),
    /// Signals cannot be handled.
    #[error("cannot handle signal {0}")]
    Signal(&'static str, #[source] io::Error),
    /// A part of the process panicked or ended before its time.
    #[error("{0} ended unexpectedly")]
    Ended(&'static str, #[source] Option<JoinError>),
}

/// Runs a controller until it is told to stop (SIGTERM, SIGINT).
///
/// # Errors
///
/// If it cannot start, or a part without which it is worth nothing fails.
pub async fn run(options: Options) -> Result<(), RunError> {
    let loaded = load(&options, &[])?;
    logging::init(loaded.settings.log.format, "info")?;
    if let Some(problem) = loaded.resolved.problems.first() {
        return Err(problem.clone().into());
    }
    let signals = Signals::new()?;
    Controller::start(options, loaded, signals.hangup)
        .await?
        .run(signals.stop)
        .await
}

struct Signals {
    hangup: Signal,
    stop: [Signal; 2],
}

impl Signals {
    fn new() -> Result<Self, RunError> {
        let handle = |kind, name| signal(kind).map_err(|error| RunError::Signal(name, error));
        Ok(Self {
            hangup: handle(SignalKind::hangup(), "SIGHUP")?,
            stop: [
                handle(SignalKind::terminate(), "SIGTERM")?,
                handle(SignalKind::interrupt(), "SIGINT")?,
            ],
        })
    }
}

/// A controller that runs.
struct Controller {
    control: Control,
    probing: Running,
    server: JoinHandle<Result<(), HttpError>>,
    stop_serving: oneshot::Sender<()>,
    keeper: StateKeeper,
    /// Reporting, reloading, failover and gRPC.
    tasks: JoinSet<()>,
    /// Everything that is configured is shown, so everything is probed.
    _everything: Consumer,
}

impl Controller {
    async fn start(options: Options, loaded: Loaded, hangup: Signal) -> Result<Self, RunError> {
        let settings = &loaded.settings;
        let state_file = StateFile::new(&settings.state_file);
        let Kept { nodes, assignments } = state_file.read()?;
        let security = settings.control.security().map_err(ConfigError::Gateways)?;
        let security = security.map(SecurityChoice::open).transpose()?;
        let board = Arc::new(Board::default());
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry, board.clone());
        let (transitions, _) = broadcast::channel(BACKLOG);
        let (ready, readiness) = watch::channel(Err("not every node has answered yet".to_owned()));
        let Probing {
            control,
            running,
            notices,
            consumers,
            everything,
        } = Probing::start(&loaded, nodes, board.clone(), &metrics)?;

        let (keeper, recorder) = StateKeeper::spawn(
            state_file,
            board.clone(),
            metrics.clone(),
            assignments.clone(),
        );
        let mut planner = Planner::new(settings.planner());
        planner.restore(Reading::take(), &assignments);
        let (egress, handle) = Egress::new(
            planner,
            board.clone(),
            consumers.register("egress"),
            recorder,
            Agents::new(security, settings.control.port),
            |planner| FailoverMetrics::register(&mut registry, planner),
        );
        let mut tasks = JoinSet::new();
        let picks = publish(settings, board.clone(), consumers, &mut tasks).await?;
        let web = Web::new(board, transitions.clone(), settings);
        let routes = web
            .routes()
            .merge(gateway_web::routes(handle.clone()))
            .merge(publish::routes(picks));
        let server = Serve::new(settings.http.listen, Arc::new(registry), readiness)
            .with_routes(routes)
            .bind()
            .await?;
        log_start(&loaded, server.local_addr());
        let reporter = Reporter {
            metrics: metrics.clone(),
            transitions,
            unrecorded: keeper.unrecorded(),
            ready,
            ready_after: settings.timeout() + settings.period(),
        };
        let reloader = Reloader::new(options, loaded, control.clone(), handle, metrics);
        tasks.spawn(reporter.run(notices));
        tasks.spawn(reloader.run(hangup));
        tasks.spawn(egress.run());
        let (stop_serving, stopped) = oneshot::channel();
        // An error means that the sender is gone, which also means: stop.
        let server = tokio::spawn(server.run(stopped.map(drop)));
        Ok(Self {
            control,
            probing: running,
            server,
            stop_serving,
            keeper,
            tasks,
            _everything: everything,
        })
    }

    /// Runs until told to stop, or until something fails.
    async fn run(mut self, stop: [Signal; 2]) -> Result<(), RunError> {
        let [mut terminate, mut interrupt] = stop;
        let outcome = tokio::select! {
            ended = self.probing.ended() => ended
                .map_err(RunError::Driver)
                .and(Err(RunError::Ended("probing", None))),
            served = &mut self.server => match served {
                Ok(served) => served.map_err(RunError::Http).and(Err(RunError::Ended("HTTP", None))),
                Err(panic) => Err(RunError::Ended("HTTP", Some(panic))),
            },
            Some(Err(panic)) = self.tasks.join_next() => {
                Err(RunError::Ended("reporting, reloading or failover", Some(panic)))
            }
            _ = terminate.recv() => Ok(()),
            _ = interrupt.recv() => Ok(()),
        };
        tracing::info!("controller stops");
        self.control.stop();
        drop(self.stop_serving);
        let probed = self.probing.ended().await.map_err(RunError::Driver);
        self.keeper.finish().await;
        if !self.server.is_finished() {
            // Requests that were under way have their time to end; what they say is no matter.
            let _ = self.server.await;
        }
        outcome.and(probed)
    }
}

/// The monitor in its thread, and what comes from there.
struct Probing {
    control: Control,
    running: Running,
    notices: UnboundedReceiver<Notice>,
    consumers: Consumers,
    everything: Consumer,
}

impl Probing {
    fn start(
        loaded: &Loaded,
        records: HashMap<String, Record>,
        board: Arc<Board>,
        metrics: &Metrics,
    ) -> Result<Self, RunError> {
        let socket = ProbeSocket::bind(&SocketOptions::default())?;
        let waker = socket.waker();
        let consumers = Consumers::new(board.clone(), move || waker.wake());
        let everything = consumers.register("http");
        everything.set_interest(Interest::All);
        let outlets = Outlets {
            board,
            consumers: consumers.clone(),
            round_trips: metrics.round_trips.clone(),
        };
        let seed = getrandom::u64().map_err(RunError::Random)?;
        let mut monitor = Monitor::new(loaded.settings.monitor(), seed, records, outlets);
        monitor.apply(Reading::take(), loaded.resolved.specs.clone());
        let (sender, notices) = mpsc::unbounded_channel();
        let (control, running) = driver::spawn(monitor, socket, sender)?;
        Ok(Self {
            control,
            running,
            notices,
            consumers,
            everything,
        })
    }
}

fn log_start(loaded: &Loaded, http: SocketAddr) {
    tracing::info!(
        nodes = loaded.resolved.specs.len(),
        period = %HumanDuration(loaded.settings.period()),
        timeout = %HumanDuration(loaded.settings.timeout()),
        http = %http,
        "controller starts"
    );
}
