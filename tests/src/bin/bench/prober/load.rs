//! The prober with a given load.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::Result;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use probe_ebpf::wire::PROBE_PORT;
use probe_user::session::{
    ProbeSettings, ProbeSocket, Prober, ProberStats, SocketOptions, SocketStats, Target, TargetId,
};

use super::field::{Field, address, pin_to_one_cpu};

/// Time for the first rounds, before anything is measured.
const WARM_UP: Duration = Duration::from_millis(500);
/// Time to insert all nodes, and to spare.
const INSERTING: Duration = Duration::from_millis(500);
const REPLY_WINDOW: Duration = Duration::from_secs(1);
/// Less than this share of the rate asked for is not keeping up.
const ENOUGH: f64 = 0.99;

/// How many nodes are probed how often.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) nodes: u32,
    pub(super) period: Duration,
}

/// What became of it.
pub(super) struct Outcome {
    load: Load,
    /// Probes per second.
    pub(super) rate: f64,
    /// Probes without a reply in time, of the whole run.
    pub(super) lost: u64,
    skipped_rounds: u64,
    overflowed: u64,
    lag_mean: Duration,
    lag_max: Duration,
    /// Share of the core, in percent.
    cpu: f64,
    sent_per_call: f64,
    received_per_call: f64,
}

/// All counters at one time.
struct Snapshot {
    at: Instant,
    cpu: Duration,
    prober: ProberStats,
    socket: SocketStats,
}

impl Load {
    pub(super) fn run(self, field: &Field, duration: Duration) -> Result<Outcome> {
        let socket = field
            .prober
            .enter(|| ProbeSocket::bind(&SocketOptions::default()))??;
        std::thread::scope(|scope| {
            let probing = scope.spawn(|| {
                pin_to_one_cpu()?;
                self.probe(field, socket, duration)
            });
            probing
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn prober(self, field: &Field) -> Result<Prober> {
        let settings = ProbeSettings {
            period: self.period,
            reply_window: REPLY_WINDOW,
            port: PROBE_PORT,
        };
        let mut prober = Prober::new(settings, 1);
        // Inserting takes time, which would show as the lag of the first rounds.
        let start = Instant::now() + INSERTING;
        for index in 0..self.nodes {
            let target = Target {
                node: field.node(),
                keys: field.keys().clone(),
                addresses: vec![address(index)],
            };
            prober.insert(start, TargetId(index), target)?;
        }
        Ok(prober)
    }

    fn probe(self, field: &Field, mut socket: ProbeSocket, duration: Duration) -> Result<Outcome> {
        let mut prober = self.prober(field)?;
        let warm = Instant::now() + INSERTING + WARM_UP.max(self.period);
        run_until(warm, &mut socket, &mut prober)?;
        let before = Snapshot::take(&socket, &prober)?;
        run_until(before.at + duration, &mut socket, &mut prober)?;
        let after = Snapshot::take(&socket, &prober)?;

        let end = Instant::now() + REPLY_WINDOW;
        while Instant::now() < end {
            socket.wait(Some(end))?;
            socket.receive(&mut prober)?;
        }
        let mut outcome = Outcome::between(self, &before, &after);
        let stats = prober.stats();
        outcome.lost = stats.sent - stats.answered;
        outcome.overflowed = socket.stats().overflowed;
        Ok(outcome)
    }
}

/// What a controller's thread does, but for judging.
fn run_until(end: Instant, socket: &mut ProbeSocket, prober: &mut Prober) -> Result<()> {
    while Instant::now() < end {
        socket.wait(prober.next_wake())?;
        socket.exchange(prober)?;
        while prober.poll_event().is_some() {}
    }
    Ok(())
}

impl Snapshot {
    fn take(socket: &ProbeSocket, prober: &Prober) -> Result<Self> {
        let usage = getrusage(UsageWho::RUSAGE_THREAD)?;
        let micros = (usage.user_time() + usage.system_time()).num_microseconds();
        Ok(Self {
            at: Instant::now(),
            cpu: Duration::from_micros(micros as u64),
            prober: *prober.stats(),
            socket: *socket.stats(),
        })
    }
}

impl Outcome {
    pub(super) const HEADINGS: &str = "     nodes  period    probes/s    lost  skipped  dropped  \
        lag mean     lag max   CPU  sent/call  received/call";

    fn between(load: Load, before: &Snapshot, after: &Snapshot) -> Self {
        let time = (after.at - before.at).as_secs_f64();
        let counted = |counter: fn(&SocketStats) -> u64| {
            (counter(&after.socket) - counter(&before.socket)) as f64
        };
        let rounds = after.prober.rounds - before.prober.rounds;
        let lag = after.prober.lag.sum - before.prober.lag.sum;
        Self {
            load,
            rate: (after.prober.sent - before.prober.sent) as f64 / time,
            lost: 0,
            skipped_rounds: after.prober.skipped_rounds,
            overflowed: 0,
            lag_mean: lag.div_f64(rounds.max(1) as f64),
            lag_max: after.prober.lag.max,
            cpu: (after.cpu - before.cpu).as_secs_f64() / time * 100.0,
            sent_per_call: counted(|stats| stats.sent) / counted(|stats| stats.send_calls),
            received_per_call: counted(|stats| stats.received)
                / counted(|stats| stats.receive_calls),
        }
    }

    /// Whether everything was sent in time, and answered.
    pub(super) fn kept_up(&self) -> bool {
        let wanted = f64::from(self.load.nodes) / self.load.period.as_secs_f64();
        self.lost == 0 && self.skipped_rounds == 0 && self.rate >= ENOUGH * wanted
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        write!(
            f,
            "{:10} {:4} ms {:11.0} {:7} {:8} {:8} {:6.2} ms {:8.2} ms {:3.0} % {:10.1} {:14.1}",
            self.load.nodes,
            self.load.period.as_millis(),
            self.rate,
            self.lost,
            self.skipped_rounds,
            self.overflowed,
            ms(self.lag_mean),
            ms(self.lag_max),
            self.cpu,
            self.sent_per_call,
            self.received_per_call,
        )
    }
}
