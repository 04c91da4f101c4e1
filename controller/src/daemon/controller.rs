//! Puts a controller together, and runs it.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::FutureExt as _;
use probe_user::channel::{Security, SecurityChoice, TlsError};
use probe_user::http::{HttpError, Serve};
use probe_user::logging::LoggingError;
use probe_user::session::SocketError;
use probe_user::settings::{HumanDuration, Invalid};
use prometheus_client::registry::Registry;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::task::{JoinError, JoinHandle, JoinSet};

use super::asking::Asking;
use super::egress::{Audience, Configured, Egress, EgressHandle, Nodes, Request};
use super::leader_web::Leading;
use super::leading::Channel;
use super::news::Herald;
use super::probing::Probing;
use super::publish::{self, Services, publish};
use super::renewing::Renewing;
use super::report::{Reporter, Unrecorded};
use super::role::Role;
use super::web::Web;
use super::witnessing::Probes;
use super::{ConfigError, Settings};
use super::{gateway_web, tunnel_web};
use crate::consumers::Consumer;
use crate::grpc::GrpcError;
use crate::metrics::{FailoverMetrics, Metrics, register_tunnels};
use crate::monitor::driver::{Control, DriverError, Running};
use crate::monitor::{Board, NodeSpec, Record};
use crate::services::{Group, Pick, Picks};
use crate::tunnels::{Collector, TunnelEnd};

/// How many transitions a client that watches may be behind before it misses some.
const BACKLOG: usize = 1024;

/// Why a controller did not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// What the configuration says of the control channel.
    #[error(transparent)]
    Control(#[from] Invalid),
    /// The log.
    #[error(transparent)]
    Logging(#[from] LoggingError),
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
    #[error("cannot choose random numbers: getrandom: {0}")]
    Random(getrandom::Error),
    /// Signals cannot be handled.
    #[error("cannot handle signal {0}")]
    Signal(&'static str, #[source] io::Error),
    /// A part of the process panicked or ended before its time.
    #[error("{0} ended unexpectedly")]
    Ended(&'static str, #[source] Option<JoinError>),
}

/// The signals that a controller obeys.
pub(crate) struct Signals {
    /// Look at the files again.
    pub(crate) hangup: Signal,
    /// End.
    pub(crate) stop: [Signal; 2],
}

impl Signals {
    pub(crate) fn new() -> Result<Self, DaemonError> {
        let handle = |kind, name| signal(kind).map_err(|error| DaemonError::Signal(name, error));
        Ok(Self {
            hangup: handle(SignalKind::hangup(), "SIGHUP")?,
            stop: [
                handle(SignalKind::terminate(), "SIGTERM")?,
                handle(SignalKind::interrupt(), "SIGINT")?,
            ],
        })
    }
}

/// What a controller goes on from.
#[derive(Default)]
pub(crate) struct Restored {
    /// The nodes' last states.
    pub(crate) nodes: HashMap<String, Record>,
    /// Who was picked for each service.
    pub(crate) picks: BTreeMap<String, Pick>,
}

/// What is configured, and may change while the controller runs.
pub(crate) struct Configuration {
    pub(crate) configured: Configured,
    pub(crate) groups: Vec<Group>,
    pub(crate) tunnel_ends: Vec<TunnelEnd>,
}

/// Who is told of another configuration.
pub(crate) struct Followers {
    control: Control,
    egress: EgressHandle,
    groups: watch::Sender<Vec<Group>>,
    tunnel_ends: watch::Sender<Vec<TunnelEnd>>,
}

impl Followers {
    pub(crate) fn follow(&self, configuration: Configuration) {
        let Configuration {
            configured,
            groups,
            tunnel_ends,
        } = configuration;
        self.control.apply(configured.specs.clone());
        self.egress.ask(Request::Configure(configured));
        self.groups.send_replace(groups);
        // They are told to every node whenever they change.
        self.tunnel_ends.send_if_modified(|known| {
            let changed = *known != tunnel_ends;
            *known = tunnel_ends;
            changed
        });
    }
}

/// A controller that probes, and does not decide yet.
pub(crate) struct Wiring {
    settings: Settings,
    registry: Registry,
    probing: Probing,
    tasks: JoinSet<()>,
    groups: watch::Sender<Vec<Group>>,
    pub(crate) board: Arc<Board>,
    pub(crate) metrics: Metrics,
    pub(crate) picks: Picks,
}

/// What is special about a controller.
pub(crate) struct Special {
    /// When it decides.
    pub(crate) roles: mpsc::UnboundedReceiver<Role>,
    /// Who keeps its nodes' states.
    pub(crate) unrecorded: Unrecorded,
    /// Who tells people, besides the log.
    pub(crate) herald: Herald,
    /// Who leads, where several controllers could.
    pub(crate) leader: watch::Receiver<Option<String>>,
}

impl Wiring {
    /// Probes the nodes in `specs`.
    pub(crate) async fn start(
        settings: &Settings,
        restored: Restored,
        specs: Vec<NodeSpec>,
    ) -> Result<Self, DaemonError> {
        let Restored { nodes, picks } = restored;
        let board = Arc::new(Board::default());
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry, board.clone());
        let probing = Probing::start(settings, nodes, specs, board.clone(), &metrics)?;
        let mut tasks = JoinSet::new();
        let Services { picks, groups } =
            publish(settings, picks, &board, &probing.consumers, &mut tasks).await?;
        Ok(Self {
            settings: settings.clone(),
            registry,
            probing,
            tasks,
            groups,
            board,
            metrics,
            picks,
        })
    }

    /// Has it decide whenever it is told to, and shows what it knows. It is worth nothing before it is
    /// told what is configured.
    pub(crate) async fn finish(
        self,
        special: Special,
    ) -> Result<(Controller, Followers), DaemonError> {
        let Self {
            settings,
            mut registry,
            probing,
            mut tasks,
            groups,
            board,
            metrics,
            picks,
        } = self;
        let security = security(&settings)?;
        let (tunnel_ends, ends) = watch::channel(Vec::new());
        let asking = Asking {
            asks: probing.asks,
            control: probing.control.clone(),
            agents: settings.control.port,
            reflectors: settings.port,
            ends: ends.clone(),
            metrics: metrics.clone(),
        };
        tasks.extend(security.clone().map(|security| asking.run(security)));
        let collector = Collector::new(security.clone(), settings.control.port, ends);
        register_tunnels(&mut registry, collector.clone());
        let nodes = Nodes {
            board: board.clone(),
            consumer: probing.consumers.register("egress"),
            renewing: Renewing::new(probing.control.clone()),
            probing: probing.control.clone(),
        };
        let channel = Channel {
            security,
            port: settings.control.port,
            probes: Probes {
                period: settings.period(),
                port: settings.port,
            },
        };
        let audience = |planner| Audience {
            metrics: FailoverMetrics::register(&mut registry, planner),
            herald: special.herald.clone(),
        };
        let planning = settings.planner();
        let (egress, handle) = Egress::new(planning, special.roles, nodes, channel, audience);
        let (transitions, _) = broadcast::channel(BACKLOG);
        let (ready, readiness) = watch::channel(Err("not every node has answered yet".to_owned()));
        let leading = Leading {
            egress: handle.clone(),
            leader: special.leader,
        };
        let routes = Web::new(
            board.clone(),
            transitions.clone(),
            leading.clone(),
            &settings,
        )
        .routes()
        .merge(gateway_web::routes(
            leading,
            board.clone(),
            collector.clone(),
        ))
        .merge(tunnel_web::routes(collector.clone()))
        .merge(publish::routes(picks));
        let serve = Serve::new(settings.http.listen, Arc::new(registry), readiness);
        let server = Server::start(serve.with_routes(routes)).await?;
        log_start(&settings, server.address);
        let reporter = Reporter {
            metrics: metrics.clone(),
            transitions,
            tunnels: collector.clone(),
            unrecorded: special.unrecorded,
            herald: special.herald,
            ready,
            ready_after: settings.timeout() + settings.period(),
        };
        tasks.spawn(reporter.run(probing.notices));
        tasks.spawn(egress.run());
        tasks.spawn(collector.run());
        let followers = Followers {
            control: probing.control.clone(),
            egress: handle.clone(),
            groups,
            tunnel_ends,
        };
        let controller = Controller {
            control: probing.control,
            probing: probing.running,
            server,
            egress: handle,
            metrics,
            board,
            tasks,
            _everything: probing.everything,
        };
        Ok((controller, followers))
    }
}

/// A controller that runs.
pub(crate) struct Controller {
    control: Control,
    probing: Running,
    server: Server,
    pub(crate) egress: EgressHandle,
    pub(crate) metrics: Metrics,
    pub(crate) board: Arc<Board>,
    /// Whatever else it does; none of it ends before the controller does.
    pub(crate) tasks: JoinSet<()>,
    /// Everything that is configured is shown, so everything is probed.
    _everything: Consumer,
}

impl Controller {
    /// Runs until told to stop, or until something fails; then has `finish` done and ends.
    pub(crate) async fn run(
        mut self,
        stop: [Signal; 2],
        finish: impl Future<Output = ()>,
    ) -> Result<(), DaemonError> {
        let [mut terminate, mut interrupt] = stop;
        let outcome = tokio::select! {
            ended = self.probing.ended() => ended
                .map_err(DaemonError::Driver)
                .and(Err(DaemonError::Ended("probing", None))),
            served = &mut self.server.task => match served {
                Ok(served) => served.map_err(DaemonError::Http).and(Err(DaemonError::Ended("HTTP", None))),
                Err(panic) => Err(DaemonError::Ended("HTTP", Some(panic))),
            },
            Some(Err(panic)) = self.tasks.join_next() => {
                Err(DaemonError::Ended("reporting, reloading or failover", Some(panic)))
            }
            _ = terminate.recv() => Ok(()),
            _ = interrupt.recv() => Ok(()),
        };
        tracing::info!("controller stops");
        self.control.stop();
        drop(self.server.stop);
        let probed = self.probing.ended().await.map_err(DaemonError::Driver);
        finish.await;
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

/// How the control channel is secured; `None`: there is none.
fn security(settings: &Settings) -> Result<Option<Security>, DaemonError> {
    let choice = settings.control.security()?;
    Ok(choice.map(SecurityChoice::open).transpose()?)
}

fn log_start(settings: &Settings, http: SocketAddr) {
    tracing::info!(
        period = %HumanDuration(settings.period()),
        timeout = %HumanDuration(settings.timeout()),
        http = %http,
        "controller starts"
    );
}
