//! A thousand datagrams a second from the client to the server, and each of them back.

use std::collections::BTreeMap;
use std::net::{IpAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use nix::sys::socket::{setsockopt, sockopt::RcvBufForce};

use super::answers::{Answers, Gap};
use super::{External, Family};
use crate::within;

const INTERVAL: Duration = Duration::from_millis(1);
/// How often a thread that receives looks whether it is over.
const LOOK: Duration = Duration::from_millis(100);
/// How long the last answers may take.
const GRACE: Duration = Duration::from_secs(1);
/// A busy machine may stop a thread for a while: nothing is to be lost here.
const BUFFER: usize = 8 << 20;
/// What the datagrams bear that look whether anything comes back; they are not counted.
const TRIAL: [u8; 8] = [0xff; 8];

/// The stream; it ends with [`Self::finish`], or on drop.
#[derive(Debug)]
pub struct Stream {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Nothing is sent any more.
    silent: AtomicBool,
    /// Nothing is received any more.
    over: AtomicBool,
    sent: AtomicU64,
    answered: AtomicU64,
    answers: Mutex<Answers>,
    /// Addresses that the server saw datagrams come from.
    sources: Mutex<BTreeMap<IpAddr, u64>>,
}

impl Shared {
    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sources(&self) -> MutexGuard<'_, BTreeMap<IpAddr, u64>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the client, and the server, saw of a stream.
#[derive(Clone, Debug)]
pub struct StreamReport {
    /// Datagrams that the client sent.
    pub sent: u64,
    /// Datagrams that came back to it.
    pub answered: u64,
    /// The longest time without an answer between two answers: the outage, if there was one.
    pub longest_gap: Duration,
    /// Addresses that the server saw, and how often.
    pub sources: BTreeMap<IpAddr, u64>,
}

impl StreamReport {
    /// Datagrams that did not come back.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.answered)
    }
}

impl Stream {
    /// Begins through the IPv4 egress IP, and waits until answers come.
    ///
    /// # Errors
    /// As [`Self::start_over`].
    pub fn start(external: &External) -> Result<Self> {
        Self::start_over(external, Family::Ipv4)
    }

    /// Begins through the egress IP of `family`, and waits until answers come.
    ///
    /// # Errors
    /// The sockets cannot be made, or nothing comes back within five seconds.
    pub fn start_over(external: &External, family: Family) -> Result<Self> {
        let server = socket(|| UdpSocket::bind(family.server()), external.outside())?;
        let client = socket(|| UdpSocket::bind(family.client()), external.client())?;
        client.connect(server.local_addr()?)?;
        // The first packet waits for the owner's address, which is no part of what is measured.
        within(Duration::from_secs(5), || answers_once(&client, &server))
            .map_err(|reason| anyhow!("nothing comes back: {reason}"))?;
        let shared = Arc::new(Shared::default());
        let sender = client.try_clone()?;
        let threads = vec![
            spawn(&shared, move |shared| echo(&server, shared)),
            spawn(&shared, move |shared| receive(&client, shared)),
            spawn(&shared, move |shared| send(&sender, shared)),
        ];
        Ok(Self { shared, threads })
    }

    /// How many datagrams have come back.
    pub fn answered(&self) -> u64 {
        self.shared.answered.load(Ordering::Relaxed)
    }

    /// How many datagrams the client has sent: the sequence number of the next.
    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::Relaxed)
    }

    /// Of the first `sent` datagrams, those that have not come back yet.
    pub fn missing_of(&self, sent: u64) -> u64 {
        self.shared.answers().missing_before(sent)
    }

    /// The times in which datagrams were lost or answers late, in order, but not a time that is not
    /// over yet.
    pub fn gaps(&self) -> Vec<Gap> {
        self.shared.answers().gaps().to_vec()
    }

    /// Addresses that the server has seen, and how often.
    pub fn sources(&self) -> BTreeMap<IpAddr, u64> {
        self.shared.sources().clone()
    }

    /// Waits until `count` more datagrams have come back.
    ///
    /// # Errors
    /// They have not within `timeout`.
    pub fn await_answers(&self, count: u64, timeout: Duration) -> Result<()> {
        let enough = self.answered() + count;
        within(timeout, || self.answered() >= enough)
            .map_err(|_| anyhow!("less than {count} answers within {timeout:?}"))
    }

    /// Ends the stream, after the last answers.
    pub fn finish(mut self) -> StreamReport {
        self.shared.silent.store(true, Ordering::Relaxed);
        // What is missing then is lost, and the report says so.
        let _ = within(GRACE, || self.answered() == self.sent());
        self.join();
        StreamReport {
            sent: self.sent(),
            answered: self.answered(),
            longest_gap: self.shared.answers().longest_gap(),
            sources: self.sources(),
        }
    }

    fn join(&mut self) {
        self.shared.silent.store(true, Ordering::Relaxed);
        self.shared.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            if let Err(panic) = thread.join()
                && !std::thread::panicking()
            {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.join();
    }
}

fn socket(
    bind: impl FnOnce() -> std::io::Result<UdpSocket> + Send,
    netns: &crate::Netns,
) -> Result<UdpSocket> {
    let socket = netns.enter(bind)?.context("bind a socket")?;
    setsockopt(&socket, RcvBufForce, &BUFFER).context("setsockopt SO_RCVBUFFORCE")?;
    socket.set_read_timeout(Some(LOOK))?;
    Ok(socket)
}

fn answers_once(client: &UdpSocket, server: &UdpSocket) -> std::io::Result<()> {
    let mut buffer = [0; 8];
    client.send(&TRIAL)?;
    let (length, from) = server.recv_from(&mut buffer)?;
    server.send_to(&buffer[..length], from)?;
    client.recv(&mut buffer).map(drop)
}

fn spawn(shared: &Arc<Shared>, run: impl FnOnce(&Shared) + Send + 'static) -> JoinHandle<()> {
    let shared = shared.clone();
    std::thread::spawn(move || run(&shared))
}

fn send(socket: &UdpSocket, shared: &Shared) {
    let mut due = Instant::now();
    while !shared.silent.load(Ordering::Relaxed) {
        let sequence = shared.sent.fetch_add(1, Ordering::Relaxed);
        // A refusal is what a lost datagram is: it does not come back.
        let _ = socket.send(&sequence.to_be_bytes());
        due += INTERVAL;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

/// The server: sends back what it gets, and notes where it came from.
fn echo(socket: &UdpSocket, shared: &Shared) {
    let mut buffer = [0; 8];
    while !shared.over.load(Ordering::Relaxed) {
        let Ok((length, from)) = socket.recv_from(&mut buffer) else {
            continue;
        };
        *shared.sources().entry(from.ip()).or_default() += 1;
        // As above.
        let _ = socket.send_to(&buffer[..length], from);
    }
}

fn receive(socket: &UdpSocket, shared: &Shared) {
    let mut buffer = [0; 8];
    while !shared.over.load(Ordering::Relaxed) {
        if socket.recv(&mut buffer).is_err() || buffer == TRIAL {
            continue;
        }
        let sequence = u64::from_be_bytes(buffer);
        shared.answers().note(Instant::now(), sequence);
        shared.answered.fetch_add(1, Ordering::Relaxed);
    }
}
