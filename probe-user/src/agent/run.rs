//! The agent's main loop.

use std::net::IpAddr;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use probe_ebpf::maps::LocalChecks;
use tokio::sync::mpsc::Receiver;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until};
use tracing::{info, warn};

use super::beat::Beat;
use super::checks::Checks;
use super::control::Control;
use super::fence::FenceRequest;
use super::reflector::Reflector;
use super::settings::Settings;
use super::signals::Signals;
use super::status::{SharedStatus, Status};
use super::tunnels::TunnelStatus;
use super::{egress, grpc_health, in_words, metrics, witness};
use crate::egress::Handle;
use crate::http::{HttpError, Serve};
use crate::interfaces::{Interface, Management, Watch};
use crate::kernel::KernelLog;
use crate::keys::NodeKeys;
use crate::logging;
use crate::tunnels::{NamesFile, PeerNames};
use crate::witness::{DriverError, Handle as WitnessHandle, Running};

/// The kernel's log lines are chosen by `log.kernel`; whatever it makes is shown.
const LOG_FILTER: &str = "info,pulsepath_ebpf=trace";

/// How often the kernel programs' log is emptied, where there is one.
const LOG_PERIOD: Duration = Duration::from_millis(50);

/// Runs the agent until SIGTERM or SIGINT.
pub(super) async fn run(settings: Settings) -> Result<()> {
    let mut signals = Signals::new()?;
    logging::init(settings.log.format, LOG_FILTER)?;
    let keys = read_keys(&settings)?;
    let mut agent = Agent::start(settings, keys)?;
    let (egress, fences) = egress::start(&agent.settings, &agent.reflector)?.unzip();
    let (witness, watching) = witness::start(&agent.settings, &agent.reflector)?.unzip();
    let (stop, http) = agent.serve_http(egress.clone(), witness.clone()).await?;
    grpc_health::start(&agent.settings.grpc_health, agent.serving.subscribe()).await?;
    let control = Control::start(&agent.settings, egress, witness, agent.status.clone()).await?;
    let others = Others {
        http,
        control,
        watching,
        fences: fences.flatten(),
    };
    let outcome = agent.work(&mut signals, others).await;
    // The server hears of it by losing the sender.
    drop(stop);
    outcome
}

/// The node's keys; `None`: a controller has to bring them.
fn read_keys(settings: &Settings) -> Result<Option<NodeKeys>> {
    let path = &settings.key_file;
    let keys = match NodeKeys::read(path) {
        Ok(keys) if keys.node() == settings.node => return Ok(Some(keys)),
        Err(error) if !error.is_missing() => return Err(error.into()),
        other => other,
    };
    if settings.control.security()?.is_some() {
        return Ok(None);
    }
    bail!(
        "{} holds the key of node {:?}, but this is node {:?}: set `node`, or give it its own key",
        path.display(),
        keys?.node(),
        settings.node,
    )
}

/// What runs beside the main loop.
struct Others {
    http: JoinHandle<Result<(), HttpError>>,
    control: Option<Control>,
    watching: Option<Running>,
    fences: Option<Receiver<FenceRequest>>,
}

/// The agent at work.
pub(super) struct Agent {
    pub(super) settings: Settings,
    pub(super) management: Management,
    /// What probes are verified with; `None`: nobody has brought them to this agent yet.
    pub(super) keys: Option<NodeKeys>,
    pub(super) reflector: Reflector,
    pub(super) beat: Beat,
    checks: Checks,
    pub(super) watch: Watch,
    pub(super) status: SharedStatus,
    pub(super) ready: watch::Sender<Result<(), String>>,
    /// Whether the agent does all that it is there for: ready, and its local checks pass.
    serving: watch::Sender<bool>,
    /// The management interface as it was last seen.
    pub(super) interface: Option<Interface>,
    /// The management addresses as they were last seen.
    pub(super) addresses: Vec<IpAddr>,
    /// Whether the reflector has been in place once: from then on the agent beats.
    pub(super) was_in_place: bool,
}

impl Agent {
    /// Brings the kernel side in, or takes over what an earlier agent left, and gives it its keys.
    fn start(settings: Settings, keys: Option<NodeKeys>) -> Result<Self> {
        let (mut reflector, kind) = Reflector::open(&settings)?;
        if let Some(keys) = &keys {
            reflector.set_keys(keys)?;
        }
        let mut beat = Beat::new(&settings.beat, reflector.last_beat()?);
        reflector.set_beat(beat.prepare()?)?;
        reflector.replace_programs()?;
        if let Reflector::Kernel(kernel) = &mut reflector
            && let Some(log) = kernel.take_log()
        {
            show_kernel_log(log)?;
        }
        info!(
            node = settings.node,
            reflector = kind.label,
            reason = kind.reason,
            "starting"
        );
        let checks = Checks::start(&settings.checks);
        let status = SharedStatus::new(Status {
            view: reflector.view()?,
            kind,
            attachments: Vec::new(),
            checks: checks.states(),
            beats: 0,
            withheld: 0,
            changes: 0,
            fence: reflector.fence()?,
            fenced: Vec::new(),
            tunnels: tunnel_status(&settings, &reflector),
        });
        Ok(Self {
            management: Management {
                interface: settings.management.interface.clone(),
                addresses: settings.management.addresses.clone(),
            },
            keys,
            reflector,
            beat,
            checks,
            watch: Watch::new()?,
            status,
            ready: watch::Sender::new(Err("starting".to_owned())),
            serving: watch::Sender::new(false),
            interface: None,
            addresses: Vec::new(),
            was_in_place: false,
            settings,
        })
    }

    /// Starts the HTTP server. It runs until the first result is dropped.
    async fn serve_http(
        &self,
        egress: Option<Handle>,
        witness: Option<WitnessHandle>,
    ) -> Result<(oneshot::Sender<()>, JoinHandle<Result<(), HttpError>>)> {
        let registry = metrics::registry(self.status.clone(), egress, witness).into();
        let serve = Serve::new(self.settings.http.listen, registry, self.ready.subscribe());
        let bound = serve.bind().await?;
        info!(address = %bound.local_addr(), "serving /live, /ready and /metrics");
        let (stop, stopped) = oneshot::channel::<()>();
        let server = tokio::spawn(bound.run(async {
            // Nothing is ever sent: the sender is dropped.
            let _ = stopped.await;
        }));
        Ok((stop, server))
    }

    async fn work(&mut self, signals: &mut Signals, others: Others) -> Result<()> {
        let Others {
            mut http,
            mut control,
            mut watching,
            mut fences,
        } = others;
        let mut beats = self.beat_ticks();
        let mut look = Instant::now();
        loop {
            tokio::select! {
                biased;
                signal = signals.any() => {
                    return self.drain(signal);
                }
                ended = &mut http => {
                    ended.context("the HTTP server panicked")??;
                    return Err(anyhow!("the HTTP server has ended"));
                }
                ended = end_of(&mut watching) => {
                    ended?;
                    return Err(anyhow!("the witness has ended"));
                }
                pushed = Control::next(&mut control) => {
                    self.replace_keys(pushed?);
                    look = self.look().await?;
                }
                Some(request) = next_fence(&mut fences) => self.fence(request).await,
                _ = beats.tick(), if self.was_in_place => self.tick()?,
                () = self.watch.changed() => look = self.look().await?,
                () = sleep_until(look) => look = self.look().await?,
            }
        }
    }

    fn drain(&mut self, signal: &str) -> Result<()> {
        self.reflector.set_beat(self.beat.drain())?;
        match self.reflector {
            Reflector::Kernel(_) => info!(signal, "draining: the kernel goes on answering"),
            Reflector::UserSpace(_) => warn!(signal, "stopping: nothing answers from now on"),
        }
        Ok(())
    }

    fn beat_ticks(&self) -> Interval {
        let mut ticks = interval(self.settings.beat.period.0);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks
    }

    fn tick(&mut self) -> Result<()> {
        let checks = self.checks.verdict();
        let beat = self.beat.tick(checks).context("cannot read the clocks")?;
        self.reflector.set_beat(beat)?;
        let serving = checks != LocalChecks::Failing && self.ready.borrow().is_ok();
        self.serving
            .send_if_modified(|before| std::mem::replace(before, serving) != serving);
        let mut status = self.status.lock();
        if checks == LocalChecks::Failing {
            status.withheld += 1;
        } else {
            status.beats += 1;
        }
        Ok(())
    }
}

fn tunnel_status(settings: &Settings, reflector: &Reflector) -> TunnelStatus {
    let directory = reflector.directory().filter(|_| settings.tunnels.enabled);
    TunnelStatus::new(directory, known_names(settings))
}

/// The nodes' names as a controller told an earlier agent.
fn known_names(settings: &Settings) -> PeerNames {
    let names = PeerNames::default();
    match NamesFile::beside(&settings.egress.state_file).read() {
        Ok(Some(known)) => {
            names.replace(&known.nodes);
        }
        Ok(None) => {}
        Err(error) => warn!(
            error = in_words(&error),
            "going on without the nodes' names"
        ),
    }
    names
}

/// Which devices need a fence next. Never returns where nobody can say so.
async fn next_fence(fences: &mut Option<Receiver<FenceRequest>>) -> Option<FenceRequest> {
    match fences {
        Some(fences) => fences.recv().await,
        None => std::future::pending().await,
    }
}

/// Why the witness has ended. Never returns where there is none.
async fn end_of(watching: &mut Option<Running>) -> Result<(), DriverError> {
    match watching {
        Some(running) => running.ended().await,
        None => std::future::pending().await,
    }
}

/// Hands the kernel programs' log lines on for as long as the process runs. On a thread of its own:
/// a flood of lines must not delay the beat.
fn show_kernel_log(mut log: KernelLog) -> Result<()> {
    let show = move || {
        loop {
            log.flush();
            thread::sleep(LOG_PERIOD);
        }
    };
    let thread = thread::Builder::new()
        .name("kernel-log".to_owned())
        .spawn(show);
    thread
        .map(drop)
        .context("cannot start a thread for the kernel programs' log")
}
