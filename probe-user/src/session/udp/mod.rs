//! Runs a [`Prober`] over UDP: one socket per internet protocol, many datagrams per system call,
//! receive times from the kernel.

mod address;
mod control;
mod error;
mod family;
mod mmsg;
mod stamp;
mod wake;

use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::Prober;
use family::FamilySocket;
use mmsg::ReceiveBatch;
use stamp::{Reading, StampClock};
use wake::Woken;

pub use error::{Family, SocketError};
pub use wake::Waker;

/// Least time between two exchanges. At high rates it lets probes and replies gather, so that a
/// system call carries dozens; at low rates it has always passed already. Round trips do not
/// depend on it, since the kernel notes when replies arrive.
const EXCHANGE_GAP: Duration = Duration::from_micros(250);

/// After so many batches sent, what has arrived is received, so that a prober that was held up and
/// has much to send does not let the replies overflow its own receive buffer.
const BATCHES_BETWEEN_RECEIVES: u32 = 16;

/// How sockets are set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    /// Size of each socket's send and receive buffers, bytes. Without `CAP_NET_ADMIN` the system's
    /// limits (`net.core.rmem_max`, `wmem_max`) apply.
    pub buffer: usize,
}

impl Default for SocketOptions {
    fn default() -> Self {
        Self { buffer: 8 << 20 }
    }
}

/// What the sockets count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketStats {
    /// Datagrams sent.
    pub sent: u64,
    /// Calls of `sendmmsg`.
    pub send_calls: u64,
    /// Datagrams received.
    pub received: u64,
    /// Calls of `recvmmsg`.
    pub receive_calls: u64,
    /// Datagrams that the kernel dropped since a receive buffer was full, as far as is known: the
    /// kernel tells with the next datagram.
    pub overflowed: u64,
    /// Why this host last refused to send a probe.
    pub last_refusal: Option<Errno>,
}

/// The sockets through which a prober works.
pub struct ProbeSocket {
    v4: Option<FamilySocket>,
    v6: Option<FamilySocket>,
    waker: Waker,
    batch: ReceiveBatch,
    clock: StampClock,
    last_exchange: Option<Instant>,
    stats: SocketStats,
}

impl ProbeSocket {
    /// Opens a socket for each internet protocol that the system has, at a port of the system's
    /// choice.
    ///
    /// # Errors
    ///
    /// Names the socket and the system call.
    pub fn bind(options: &SocketOptions) -> Result<Self, SocketError> {
        let v4 = FamilySocket::open(Family::V4, options)?;
        let v6 = FamilySocket::open(Family::V6, options)?;
        if v4.is_none() && v6.is_none() {
            return Err(SocketError::NoFamily);
        }
        Ok(Self {
            v4,
            v6,
            waker: Waker::new()?,
            batch: ReceiveBatch::new(),
            clock: StampClock::default(),
            last_exchange: None,
            stats: SocketStats::default(),
        })
    }

    /// A handle with which another thread ends [`wait`](Self::wait).
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Waits for something to do: a datagram, `until` (for ever if `None`), or the waker.
    ///
    /// # Errors
    ///
    /// If the system cannot wait.
    pub fn wait(&mut self, until: Option<Instant>) -> Result<(), SocketError> {
        if let Some(last) = self.last_exchange {
            let earliest = last + EXCHANGE_GAP;
            if Instant::now() < earliest
                && self.waker.wait([None, None], Some(earliest))? == Woken::ByWaker
            {
                return Ok(());
            }
        }
        let sockets = [&self.v4, &self.v6].map(|socket| socket.as_ref().map(|s| s.as_fd()));
        self.waker.wait(sockets, until).map(|_| ())
    }

    /// Hands all that has arrived to the prober, begins the rounds that are due, and sends their
    /// probes.
    ///
    /// # Errors
    ///
    /// If a socket cannot be read. That a probe cannot be sent is no error: the prober is told.
    pub fn exchange(&mut self, prober: &mut Prober) -> Result<(), SocketError> {
        self.receive(prober)?;
        prober.poll(Instant::now());
        self.send(prober)
    }

    /// Hands all that has arrived to the prober, and begins no round.
    ///
    /// # Errors
    ///
    /// If a socket cannot be read.
    pub fn receive(&mut self, prober: &mut Prober) -> Result<(), SocketError> {
        let reading = Reading::take();
        let stamps = self.clock.update(reading);
        self.last_exchange = Some(reading.now);
        prober.set_wall_clock(reading.now, reading.unix);
        for socket in [&mut self.v4, &mut self.v6].into_iter().flatten() {
            socket.receive(
                &mut self.batch,
                &stamps,
                reading.now,
                prober,
                &mut self.stats,
            )?;
        }
        Ok(())
    }

    fn send(&mut self, prober: &mut Prober) -> Result<(), SocketError> {
        let mut now = Instant::now();
        let mut full_batches = 0;
        while let Some(transmit) = prober.poll_transmit(now) {
            let socket = if transmit.to.is_ipv4() {
                &mut self.v4
            } else {
                &mut self.v6
            };
            let Some(socket) = socket else {
                prober.handle_refused(transmit.target, transmit.sequence);
                self.stats.last_refusal = Some(Errno::EAFNOSUPPORT);
                continue;
            };
            if !socket.queue(&transmit) {
                continue;
            }
            socket.flush(prober, &mut self.stats);
            full_batches += 1;
            if full_batches % BATCHES_BETWEEN_RECEIVES == 0 {
                self.receive(prober)?;
            }
            now = Instant::now();
        }
        for socket in [&mut self.v4, &mut self.v6].into_iter().flatten() {
            socket.flush(prober, &mut self.stats);
        }
        Ok(())
    }

    /// What the sockets have counted.
    pub fn stats(&self) -> &SocketStats {
        &self.stats
    }
}
