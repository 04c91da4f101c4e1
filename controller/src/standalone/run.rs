//! The daemon.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt as _;
use probe_user::channel::{Security, SecurityChoice, TlsError};
use probe_user::http::{HttpError, Serve};
use probe_user::logging::{self, LoggingError};
use probe_user::session::SocketError;
use probe_user::settings::HumanDuration;
use prometheus_client::registry::Registry;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{broadcast, oneshot, watch};
use tokio::task::{JoinError, JoinHandle, JoinSet};

use super::agents::Agents;
use super::asking::Asking;
use super::egress::{Egress, Nodes, Told};
use super::keeper::StateKeeper;
use super::keying::Keying;
use super::probing::Probing;
use super::publish::{self, Services, publish};
use super::reload::{ConfigError, Followers, Loaded, Reloader, load};
use super::renewing::Renewing;
use super::report::Reporter;
use super::web::Web;
use super::witnessing::{Probes, Witnessing};
use super::{Kept, Problem, Settings, StateFile, StateFileError};
use super::{gateway_web, tunnel_web};
use crate::clock::Reading;
use crate::consumers::Consumer;
use crate::failover::{Planner, Record as Assignments};
use crate::grpc::GrpcError;
use crate::metrics::{FailoverMetrics, Metrics};
use crate::monitor::Board;
use crate::monitor::driver::{Control, DriverError, Running};
use crate::tunnels::Collector;

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
    server: Server,
    keeper: StateKeeper,
    /// Reporting, reloading, failover, services and gRPC.
    tasks: JoinSet<()>,
    /// Everything that is configured is shown, so everything is probed.
    _everything: Consumer,
}

impl Controller {
    async fn start(options: Options, loaded: Loaded, hangup: Signal) -> Result<Self, RunError> {
        let settings = &loaded.settings;
        let file = StateFile::new(&settings.state_file);
        let Kept {
            nodes,
            assignments,
            picks,
        } = file.read()?;
        let board = Arc::new(Board::default());
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry, board.clone());
        let probing = Probing::start(&loaded, nodes, board.clone(), &metrics)?;
        let consumers = probing.consumers;
        let mut tasks = JoinSet::new();
        let Services { picks, groups } =
            publish(settings, picks, &board, &consumers, &mut tasks).await?;
        let (keeper, recorder) =
            StateKeeper::spawn(file, &board, &metrics, assignments.clone(), picks.clone());
        let nodes = Nodes {
            board: board.clone(),
            consumer: consumers.register("egress"),
            renewing: Renewing::new(probing.control.clone()),
            probing: probing.control.clone(),
        };
        let security = security(settings)?;
        let asking = Asking {
            asks: probing.asks,
            control: probing.control.clone(),
            agents: settings.control.port,
            reflectors: settings.port,
            metrics: metrics.clone(),
        };
        tasks.extend(security.clone().map(|security| asking.run(security)));
        let (tunnel_ends, ends) = watch::channel(tunnel_web::ends(&settings.nodes));
        let collector = Collector::new(security.clone(), settings.control.port, ends);
        let (egress, handle) = failover(settings, security, assignments, |planner, told| {
            let metrics = |planner| FailoverMetrics::register(&mut registry, planner);
            Egress::new(planner, nodes, recorder, told, metrics)
        });
        let (transitions, _) = broadcast::channel(BACKLOG);
        let (ready, readiness) = watch::channel(Err("not every node has answered yet".to_owned()));
        let routes = Web::new(board.clone(), transitions.clone(), settings)
            .routes()
            .merge(gateway_web::routes(
                handle.clone(),
                board,
                collector.clone(),
            ))
            .merge(tunnel_web::routes(collector.clone()))
            .merge(publish::routes(picks));
        let serve = Serve::new(settings.http.listen, Arc::new(registry), readiness);
        let server = Server::start(serve.with_routes(routes)).await?;
        log_start(&loaded, server.address);
        let reporter = Reporter {
            metrics: metrics.clone(),
            transitions,
            unrecorded: keeper.unrecorded(),
            ready,
            ready_after: settings.timeout() + settings.period(),
        };
        let followers = Followers {
            control: probing.control.clone(),
            egress: handle,
            groups,
            tunnel_ends,
        };
        let reloader = Reloader::new(options, loaded, followers, metrics);
        tasks.spawn(reporter.run(probing.notices));
        tasks.spawn(reloader.run(hangup));
        tasks.spawn(egress.run());
        tasks.spawn(collector.run());
        Ok(Self {
            control: probing.control,
            probing: probing.running,
            server,
            keeper,
            tasks,
            _everything: probing.everything,
        })
    }

    /// Runs until told to stop, or until something fails.
    async fn run(mut self, stop: [Signal; 2]) -> Result<(), RunError> {
        let [mut terminate, mut interrupt] = stop;
        let outcome = tokio::select! {
            ended = self.probing.ended() => ended
                .map_err(RunError::Driver)
                .and(Err(RunError::Ended("probing", None))),
            served = &mut self.server.task => match served {
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
        drop(self.server.stop);
        let probed = self.probing.ended().await.map_err(RunError::Driver);
        self.keeper.finish().await;
        if !self.server.task.is_finished() {
            // Requests that were under way have their time to end; what they say is no matter.
            let _ = self.server.task.await;
        }
        outcome.and(probed)
    }
}

/// The HTTP interface.
struct Server {
    address: SocketAddr,
    task: JoinHandle<Result<(), HttpError>>,
    /// Dropped to stop it.
    stop: oneshot::Sender<()>,
}

impl Server {
    async fn start(serve: Serve) -> Result<Self, HttpError> {
        let bound = serve.bind().await?;
        let (stop, stopped) = oneshot::channel();
        Ok(Self {
            address: bound.local_addr(),
            // An error means that the sender is gone, which also means: stop.
            task: tokio::spawn(bound.run(stopped.map(drop))),
            stop,
        })
    }
}

/// A planner that goes on from `assignments`, and the agents that are told of them.
fn failover<T>(
    settings: &Settings,
    security: Option<Security>,
    assignments: Assignments,
    start: impl FnOnce(Planner, Told) -> T,
) -> T {
    let mut planner = Planner::new(settings.planner());
    planner.restore(Reading::take(), &assignments);
    let probes = Probes {
        period: settings.period(),
        port: settings.port,
    };
    let port = settings.control.port;
    let mut witnesses = Witnessing::new(security.clone(), port, probes);
    let mut agents = Agents::new(security.clone(), port);
    witnesses.remember(&assignments.reach);
    agents.remember(assignments.reach);
    let told = Told {
        agents,
        witnesses,
        keys: Keying::new(security, port),
    };
    start(planner, told)
}

/// How the control channel is secured; `None`: there is none.
fn security(settings: &Settings) -> Result<Option<Security>, RunError> {
    let choice = settings.control.security().map_err(ConfigError::Gateways)?;
    Ok(choice.map(SecurityChoice::open).transpose()?)
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
