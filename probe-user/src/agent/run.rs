//! The agent's main loop.

use std::net::IpAddr;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use probe_ebpf::maps::{KEY_SLOTS, LocalChecks, MAX_ADDRESSES, ProbeKey};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until};
use tracing::{info, warn};

use super::beat::Beat;
use super::checks::Checks;
use super::reflector::{Reflector, ReflectorError, may_fall_back};
use super::settings::Settings;
use super::status::{SharedStatus, Status};
use super::{config, in_words, metrics};
use crate::http::{HttpError, Serve};
use crate::interfaces::{Interface, Management, NotFound, Watch};
use crate::kernel::{Attachment, KernelError, KernelLog};
use crate::keys::NodeKeys;
use crate::logging;

/// The kernel's log lines are chosen by `log.kernel`; whatever it makes is shown.
const LOG_FILTER: &str = "info,pulsepath_ebpf=trace";
/// How often the interfaces are looked at although no change was heard of.
const LOOK: Duration = Duration::from_secs(10);
/// The same while something is missing.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// How often the kernel programs' log is emptied, where there is one.
const LOG_PERIOD: Duration = Duration::from_millis(50);

/// Runs the agent until SIGTERM or SIGINT.
pub(super) async fn run(settings: Settings) -> Result<()> {
    let mut signals = Signals::new()?;
    logging::init(settings.log.format, LOG_FILTER)?;
    let keys = read_keys(&settings)?;
    let mut agent = Agent::start(settings, &keys)?;
    let (stop, http) = agent.serve_http().await?;
    let outcome = agent.work(&mut signals, http).await;
    // The server hears of it by losing the sender.
    drop(stop);
    outcome
}

fn read_keys(settings: &Settings) -> Result<NodeKeys> {
    let keys = NodeKeys::read(&settings.key_file)?;
    if keys.node() != settings.node {
        bail!(
            "{} holds the key of node {:?}, but this is node {:?}: set `node`, or give it its own key",
            settings.key_file.display(),
            keys.node(),
            settings.node,
        );
    }
    Ok(keys)
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    async fn any(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// What the reflector waits for, or `None` if it is in place.
type Missing = Option<String>;

struct Agent {
    settings: Settings,
    management: Management,
    keys: [ProbeKey; KEY_SLOTS],
    reflector: Reflector,
    beat: Beat,
    checks: Checks,
    watch: Watch,
    status: SharedStatus,
    ready: watch::Sender<Result<(), String>>,
    /// The management interface as it was last seen.
    interface: Option<Interface>,
    /// The management addresses as they were last seen.
    addresses: Vec<IpAddr>,
    /// Whether the reflector has been in place once: from then on the agent beats.
    was_in_place: bool,
}

impl Agent {
    /// Brings the kernel side in, or takes over what an earlier agent left, and gives it its keys.
    fn start(settings: Settings, keys: &NodeKeys) -> Result<Self> {
        let (mut reflector, kind) = Reflector::open(&settings)?;
        let keys = config::probe_keys(keys);
        reflector.set_keys(keys)?;
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
            interface: None,
            addresses: Vec::new(),
            was_in_place: false,
            settings,
        })
    }

    /// Starts the HTTP server. It runs until the first result is dropped.
    async fn serve_http(&self) -> Result<(oneshot::Sender<()>, JoinHandle<Result<(), HttpError>>)> {
        let registry = metrics::registry(self.status.clone()).into();
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

    async fn work(
        &mut self,
        signals: &mut Signals,
        mut http: JoinHandle<Result<(), HttpError>>,
    ) -> Result<()> {
        let mut beats = self.beat_ticks();
        let mut look = Instant::now();
        loop {
            tokio::select! {
                biased;
                signal = signals.any() => {
                    info!(signal, "draining: the kernel goes on answering");
                    self.reflector.set_beat(self.beat.drain())?;
                    return Ok(());
                }
                ended = &mut http => {
                    ended.context("the HTTP server panicked")??;
                    return Err(anyhow!("the HTTP server has ended"));
                }
                _ = beats.tick(), if self.was_in_place => self.tick()?,
                () = self.watch.changed() => look = self.look().await?,
                () = sleep_until(look) => look = self.look().await?,
            }
        }
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
        let mut status = self.status.lock();
        if checks == LocalChecks::Failing {
            status.withheld += 1;
        } else {
            status.beats += 1;
        }
        Ok(())
    }

    /// Looks at the interfaces, and puts the reflector where it belongs now. Returns when to look
    /// again.
    async fn look(&mut self) -> Result<Instant> {
        if !self.reflector.is_in_place() {
            bail!(
                "the pins below {} have been removed while this agent ran (`detach --force`?)",
                self.settings.pin_dir.display()
            );
        }
        let interfaces = self.watch.interfaces().await?;
        let missing = match self.place(&interfaces) {
            Ok(missing) => missing,
            // Before it was ever in place, an error is the operator's to see at once. Later the
            // agent goes on and tries again.
            Err(error) if !self.was_in_place => return Err(error),
            Err(error) => Some(in_words(error.as_ref())),
        };
        self.was_in_place |= missing.is_none();
        let wait = if missing.is_none() { LOOK } else { LOOK_AGAIN };
        self.set_ready(missing.map_or(Ok(()), Err));
        Ok(Instant::now() + wait)
    }

    fn place(&mut self, interfaces: &[Interface]) -> Result<Missing> {
        let previous = self.interface.as_ref().map(|interface| interface.index);
        let management = match self.management.choose(interfaces, previous) {
            Ok(interface) => interface.clone(),
            Err(missing) => {
                self.note_missing(&missing);
                return Ok(Some(missing.to_string()));
            }
        };
        self.note_interface(&management);
        let addresses = self.management.addresses_on(&management);
        if addresses.is_empty() {
            return Ok(Some(format!("{} has no address", management.name)));
        }
        self.note_addresses(&addresses);
        let loopback = interfaces.iter().find(|interface| interface.loopback);
        let config = config::probe_config(&self.settings, &addresses);
        let setting = self.settings.reflector.attach;
        let placed = self
            .reflector
            .place(&config, &addresses, &management, loopback, setting);
        let (attachments, missing) = match placed {
            Ok(placed) => placed,
            Err(ReflectorError::Kernel(error))
                if !self.was_in_place && may_fall_back(&self.settings, &error) =>
            {
                self.fall_back(&error)?;
                return self.place(interfaces);
            }
            Err(error) => match error.missing() {
                Some(missing) => return Ok(Some(missing)),
                None => return Err(error.into()),
            },
        };
        self.note_attachments(attachments);
        Ok(missing.map(|error| format!("the node cannot probe itself: {}", in_words(&error))))
    }

    /// Replaces kernel programs that cannot be attached by the reflector in user space.
    fn fall_back(&mut self, cause: &KernelError) -> Result<()> {
        let (mut reflector, kind) = Reflector::fall_back(cause)?;
        reflector.set_keys(self.keys)?;
        reflector.set_beat(self.beat.prepare()?)?;
        let mut status = self.status.lock();
        status.view = reflector.view()?;
        status.kind = kind;
        self.reflector = reflector;
        Ok(())
    }

    fn note_missing(&mut self, missing: &NotFound) {
        if let Some(gone) = self.interface.take() {
            warn!(interface = gone.name, "the management interface is gone");
            self.note_attachments(Vec::new());
        } else if !self
            .ready
            .borrow()
            .as_ref()
            .is_err_and(|reason| *reason == missing.to_string())
        {
            warn!(%missing, "waiting for the management interface");
        }
    }

    fn note_interface(&mut self, now: &Interface) {
        match &self.interface {
            Some(before) if before.index == now.index => {
                if before.name != now.name {
                    info!(
                        from = before.name,
                        to = now.name,
                        "the management interface was renamed"
                    );
                }
                if before.up != now.up {
                    let state = if now.up { "up" } else { "down" };
                    info!(
                        interface = now.name,
                        state, "the management interface changed"
                    );
                }
            }
            _ => info!(
                interface = now.name,
                index = now.index,
                "found the management interface"
            ),
        }
        self.interface = Some(now.clone());
    }

    fn note_addresses(&mut self, now: &[IpAddr]) {
        if self.addresses == now {
            return;
        }
        info!(addresses = ?now, "answering on these addresses");
        if let Some(surplus) = now
            .get(MAX_ADDRESSES..)
            .filter(|surplus| !surplus.is_empty())
        {
            warn!(
                ?surplus,
                "these addresses do not answer: there are too many"
            );
        }
        self.addresses = now.to_vec();
    }

    fn note_attachments(&mut self, attachments: Vec<Attachment>) {
        let mut status = self.status.lock();
        if status.attachments == attachments {
            return;
        }
        for new in attachments
            .iter()
            .filter(|new| !status.attachments.contains(new))
        {
            info!(
                interface = new.interface,
                mode = %new.mode,
                reason = new.reason,
                link = new.link_id,
                "the reflector is attached"
            );
        }
        status.attachments = attachments;
        status.changes += 1;
    }

    fn set_ready(&self, now: Result<(), String>) {
        self.ready.send_if_modified(|ready| {
            if *ready == now {
                return false;
            }
            match &now {
                Ok(()) => info!("ready"),
                Err(reason) => warn!(reason, "not ready"),
            }
            *ready = now.clone();
            true
        });
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
