//! Plain STAMP, unauthenticated (RFC 8762 section 4.2.1), as any sender speaks it.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use probe_ebpf::wire::ntp::{NtpTime, UNKNOWN_ERROR};
use probe_ebpf::wire::stamp::StampBase;
use tokio::net::UdpSocket;
use tokio::time::{Interval, MissedTickBehavior, interval, sleep_until};

use super::Pace;
use super::report::{Oddities, Reply, Reporter};
use crate::cli::Failure;

/// Replies are as long as requests, but a reflector may append what it likes.
const REPLY_MAX: usize = 2048;
/// Flag Z of an error estimate: timestamps are in PTP's format.
const PTP_FORMAT: u16 = 0x4000;

/// Probes until the count is reached or Ctrl-C is pressed.
pub(super) async fn run(
    to: SocketAddr,
    pace: Pace,
    reporter: &mut Reporter,
) -> Result<(), Failure> {
    let socket = connect(to)
        .await
        .with_context(|| format!("cannot open a UDP socket to {to}"));
    let mut ping = Ping {
        socket: socket.map_err(Failure::NoAnswer)?,
        pace,
        reporter,
        ssid: random_ssid()?,
        sent: 0,
        oddities: Oddities::default(),
        waiting: BTreeMap::new(),
    };
    tokio::select! {
        result = ping.run() => result,
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}

/// Tells this ping's probes from those of others to the same reflector.
fn random_ssid() -> Result<u16, Failure> {
    let random = getrandom::u32().map_err(|error| Failure::NoAnswer(anyhow::anyhow!(error)))?;
    Ok(random as u16)
}

async fn connect(to: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = match to {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(to).await?;
    Ok(socket)
}

struct Waiting {
    sent: Instant,
    timestamp: NtpTime,
    answered: bool,
}

struct Ping<'a> {
    socket: UdpSocket,
    pace: Pace,
    reporter: &'a mut Reporter,
    ssid: u16,
    sent: u64,
    oddities: Oddities,
    /// By number; each until its window closes.
    waiting: BTreeMap<u64, Waiting>,
}

impl Ping<'_> {
    async fn run(&mut self) -> Result<(), Failure> {
        let mut buffer = [0; REPLY_MAX];
        let mut ticks = self.ticks();
        loop {
            let sending = !self.pace.is_over(self.sent);
            if !sending && self.waiting.values().all(|probe| probe.answered) {
                return Ok(());
            }
            let closing = self
                .waiting
                .values()
                .next()
                .map(|probe| probe.sent + self.pace.timeout);
            tokio::select! {
                _ = ticks.tick(), if sending => self.probe().await,
                received = self.socket.recv(&mut buffer) => match received {
                    Ok(length) => self.handle(&buffer[..length])?,
                    Err(error) => eprintln!("pulsepath: {error}"),
                },
                () = sleep_until(closing.unwrap_or_else(Instant::now).into()), if closing.is_some() => {
                    self.expire()?;
                }
            }
            self.reporter
                .count(self.sent - self.oddities.refused, self.oddities);
        }
    }

    fn ticks(&self) -> Interval {
        let mut ticks = interval(self.pace.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        ticks
    }

    async fn probe(&mut self) {
        self.sent += 1;
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let timestamp = NtpTime::from_unix_nanos(wall.as_nanos() as u64);
        let request = StampBase::request(self.sent as u32, timestamp, UNKNOWN_ERROR, self.ssid);
        let sent = Instant::now();
        match self.socket.send(&request.to_bytes(0)).await {
            Ok(_) => {
                let waiting = Waiting {
                    sent,
                    timestamp,
                    answered: false,
                };
                self.waiting.insert(self.sent, waiting);
            }
            Err(error) => {
                self.oddities.refused += 1;
                eprintln!("pulsepath: this host refused to send a probe: {error}");
            }
        }
    }

    fn handle(&mut self, payload: &[u8]) -> io::Result<()> {
        let received = Instant::now();
        let Some((reply, ttl)) = StampBase::from_bytes(payload) else {
            self.oddities.invalid += 1;
            return Ok(());
        };
        let sequence = reply.sender_sequence();
        // Sequence numbers count from 1, and no ping goes on until they wrap.
        let Some(probe) = self.waiting.get_mut(&sequence.into()) else {
            let known = (1..=self.sent).contains(&sequence.into());
            *(if known {
                &mut self.oddities.late
            } else {
                &mut self.oddities.invalid
            }) += 1;
            return Ok(());
        };
        if reply.sender_timestamp() != probe.timestamp {
            self.oddities.invalid += 1;
            return Ok(());
        }
        if std::mem::replace(&mut probe.answered, true) {
            self.oddities.duplicate += 1;
            return Ok(());
        }
        self.reporter.reply(&Reply {
            number: sequence.into(),
            round_trip: received - probe.sent,
            node_share: node_share(&reply),
            ttl,
            node: None,
        })
    }

    /// Gives up probes whose window has closed.
    fn expire(&mut self) -> io::Result<()> {
        while let Some(entry) = self.waiting.first_entry() {
            if entry.get().sent.elapsed() < self.pace.timeout {
                break;
            }
            let (number, probe) = entry.remove_entry();
            if !probe.answered {
                self.reporter.lost(number)?;
            }
        }
        Ok(())
    }
}

/// T3 - T2, in either format of timestamps. `None`: the reflector read its clock once, or its
/// clock went back.
fn node_share(reply: &StampBase) -> Option<Duration> {
    let (received, sent) = (reply.receive_timestamp(), reply.timestamp());
    let nanos = if reply.error_estimate() & PTP_FORMAT == 0 {
        u64::try_from(sent.nanos_since(received)).ok()?
    } else {
        ptp_nanos(sent).checked_sub(ptp_nanos(received))?
    };
    Some(Duration::from_nanos(nanos)).filter(|share| !share.is_zero())
}

/// Nanoseconds of a truncated PTPv2 timestamp: seconds, and nanoseconds of a second.
fn ptp_nanos(time: NtpTime) -> u64 {
    (time.0 >> 32) * 1_000_000_000 + (time.0 & 0xffff_ffff)
}
