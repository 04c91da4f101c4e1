//! Authenticated probes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use probe_ebpf::wire::{NodeId, probe};
use probe_user::keys::NodeKeys;
use probe_user::session::{
    Event, ProbeSettings, ProbeSocket, Prober, SocketError, SocketOptions, Target, TargetId,
};

use super::Pace;
use super::report::{Oddities, Reply, Reporter};
use crate::cli::Failure;

const TARGET: TargetId = TargetId(0);
/// So much after the end of a probe's window it is certainly closed.
const AFTER_WINDOW: Duration = Duration::from_millis(1);

/// Probes until the count is reached or Ctrl-C is pressed.
pub(super) async fn run(
    keys: NodeKeys,
    to: SocketAddr,
    pace: Pace,
    reporter: Reporter,
) -> Result<Reporter, Failure> {
    let socket = ProbeSocket::bind(&SocketOptions::default())?;
    let (waker, interrupted) = (socket.waker(), Arc::new(AtomicBool::new(false)));
    let target = Target {
        node: NodeId::of(keys.node()),
        keys,
        addresses: vec![to.ip()],
    };
    let prober = prober(&target, to, pace)?;
    let mut ping = Ping::new(
        pace,
        socket,
        prober,
        target,
        reporter,
        Arc::clone(&interrupted),
    );
    let probing = tokio::task::spawn_blocking(move || ping.run().map(|()| ping.reporter));
    tokio::pin!(probing);
    let result = tokio::select! {
        result = &mut probing => result,
        _ = tokio::signal::ctrl_c() => {
            interrupted.store(true, Ordering::Relaxed);
            waker.wake();
            probing.await
        }
    };
    result.map_err(|error| Failure::NoAnswer(error.into()))?
}

fn prober(target: &Target, to: SocketAddr, pace: Pace) -> Result<Prober, Failure> {
    let settings = ProbeSettings {
        period: pace.interval,
        reply_window: pace.timeout,
        port: to.port(),
    };
    let seed = getrandom::u64().map_err(|error| Failure::NoAnswer(anyhow!(error)))?;
    let mut prober = Prober::new(settings, seed);
    prober
        .insert(Instant::now(), TARGET, target.clone())
        .map_err(|error| Failure::Usage(error.into()))?;
    Ok(prober)
}

struct Ping {
    pace: Pace,
    socket: ProbeSocket,
    prober: Prober,
    target: Target,
    reporter: Reporter,
    interrupted: Arc<AtomicBool>,
    first_sequence: u32,
    last_sent: Instant,
}

impl Ping {
    fn new(
        pace: Pace,
        socket: ProbeSocket,
        mut prober: Prober,
        target: Target,
        reporter: Reporter,
        interrupted: Arc<AtomicBool>,
    ) -> Self {
        let first_sequence = prober.next_sequence(TARGET).unwrap_or_default();
        let last_sent = Instant::now();
        Self {
            pace,
            socket,
            prober,
            target,
            reporter,
            interrupted,
            first_sequence,
            last_sent,
        }
    }

    fn run(&mut self) -> Result<(), Failure> {
        while !self.is_interrupted() && !self.pace.is_over(self.prober.stats().sent) {
            self.probe()?;
            self.digest()?;
            if !self.pace.is_over(self.prober.stats().sent) {
                self.wait(self.prober.next_wake())?;
            }
        }
        self.linger()
    }

    /// Receives, and sends a probe if one is due.
    fn probe(&mut self) -> Result<(), Failure> {
        let before = *self.prober.stats();
        self.socket.exchange(&mut self.prober)?;
        if self.prober.stats().sent > before.sent {
            self.last_sent = Instant::now();
        }
        if self.prober.stats().refused > before.refused
            && let Some(errno) = self.socket.stats().last_refusal
        {
            eprintln!("pulsepath: this host refused to send a probe: {errno}");
        }
        Ok(())
    }

    /// Waits for the replies that may still come.
    fn linger(&mut self) -> Result<(), Failure> {
        while !self.is_interrupted() && self.outstanding() > 0 {
            self.wait(None)?;
            self.socket.receive(&mut self.prober)?;
            self.digest()?;
        }
        Ok(())
    }

    /// Waits until something arrives, or until the last probe's window has closed.
    fn wait(&mut self, until: Option<Instant>) -> Result<(), SocketError> {
        let closed = self.last_sent + self.pace.timeout + AFTER_WINDOW;
        let closed = Some(closed).filter(|_| self.outstanding() > 0);
        self.socket.wait(until.into_iter().chain(closed).min())
    }

    fn digest(&mut self) -> Result<(), Failure> {
        self.prober.expire(Instant::now(), TARGET);
        while let Some(event) = self.prober.poll_event() {
            match event {
                Event::Reply {
                    round_trip, reply, ..
                } => {
                    let number = self.number(reply.sequence);
                    self.reporter.reply(&Reply {
                        number,
                        round_trip,
                        node_share: node_share(&reply.answer),
                        ttl: reply.answer.ttl,
                        node: Some(reply.answer),
                    })?;
                }
                Event::Lost { sequence, .. } => {
                    self.reporter.lost(self.number(sequence))?;
                    self.try_other_key()?;
                }
                Event::Round { .. } => {}
            }
        }
        let stats = self.prober.stats();
        let oddities = Oddities {
            refused: stats.refused,
            duplicate: stats.duplicate,
            late: stats.late,
            reordered: stats.reordered,
            invalid: stats.forged + stats.foreign + stats.replayed,
        };
        self.reporter.count(stats.sent - stats.refused, oddities);
        Ok(())
    }

    /// While a key is being replaced there are two, and the node may hold only one of them: as long as
    /// nothing is answered, the probes after one that is not are signed with the other.
    fn try_other_key(&mut self) -> Result<(), Failure> {
        let keys = &self.target.keys;
        if self.prober.stats().answered > 0 || keys.all().len() < 2 {
            return Ok(());
        }
        self.target.keys = keys.signing_as_held(&keys.all()[1..]);
        self.prober
            .insert(Instant::now(), TARGET, self.target.clone())
            .map_err(|error| Failure::Usage(error.into()))
    }

    /// Which probe has this sequence number, counted from 1.
    fn number(&self, sequence: u32) -> u64 {
        u64::from(sequence.wrapping_sub(self.first_sequence)) + 1
    }

    fn outstanding(&self) -> u64 {
        let stats = self.prober.stats();
        stats.sent - stats.refused - stats.answered - stats.lost
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}

/// The kernel's reflector reads its clock once, and so tells nothing.
fn node_share(answer: &probe::Answer) -> Option<Duration> {
    let nanos = u64::try_from(answer.sent.nanos_since(answer.received)).ok()?;
    Some(Duration::from_nanos(nanos)).filter(|share| !share.is_zero())
}
