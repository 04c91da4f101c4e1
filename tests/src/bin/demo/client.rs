//! The client behind the gateway: 1,000 datagrams a second, and a TCP connection that is always in
//! use.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use pulsepath_tests::egress::{Connection, EGRESS_IP, External, Gap, Stream};

use crate::clock::Clock;
use crate::console::Console;
use pulsepath_tests::report::Probes;
use pulsepath_tests::report::seconds;

/// Time between an answer over TCP and the next question.
const PAUSE: Duration = Duration::from_millis(10);

/// A point in the client's life, for looking at what came later.
pub(crate) struct Moment {
    at: Instant,
    sent: u64,
    sources: BTreeMap<IpAddr, u64>,
}

/// What it sends, and what comes back, until dropped.
pub(crate) struct Client {
    stream: Stream,
    talk: Talk,
    clock: Clock,
    console: Console,
    began: Duration,
    /// So many gaps have been told of.
    told: usize,
}

impl Client {
    /// Begins, and waits for the first answers.
    pub(crate) fn start(external: &External, clock: Clock, console: Console) -> Result<Self> {
        let stream = Stream::start(external)?;
        Ok(Self {
            stream,
            talk: Talk::start(Connection::open(external)?)?,
            began: clock.now(),
            clock,
            console,
            told: 0,
        })
    }

    /// This moment.
    pub(crate) fn moment(&self) -> Moment {
        Moment {
            at: Instant::now(),
            sent: self.stream.sent(),
            sources: self.stream.sources(),
        }
    }

    /// What became of the datagrams between two moments, so far.
    pub(crate) fn datagrams(&self, from: &Moment, until: &Moment) -> Probes {
        let missing = |moment: &Moment| self.stream.missing_of(moment.sent);
        // Of the earlier ones, some may have come back in between, but none can get lost again.
        let lost = missing(until).saturating_sub(missing(from));
        Probes {
            answered: (until.sent - from.sent).saturating_sub(lost),
            lost,
        }
    }

    /// How many datagrams have come back.
    pub(crate) fn answered(&self) -> u64 {
        self.stream.answered()
    }

    /// The longest time without an answer that ended after `moment`.
    pub(crate) fn outage_since(&self, moment: &Moment) -> Duration {
        let gaps = self.stream.gaps().into_iter();
        let later = gaps.filter(|gap| gap.until > moment.at);
        later.map(length).max().unwrap_or_default()
    }

    /// How many datagrams the server has seen since `moment` from another address than the egress
    /// IP.
    pub(crate) fn strays_since(&self, moment: &Moment) -> u64 {
        let mut strays = self.stream.sources();
        strays.remove(&IpAddr::from(EGRESS_IP));
        let before = |source| moment.sources.get(source).copied().unwrap_or_default();
        strays
            .iter()
            .map(|(source, seen)| seen - before(source))
            .sum()
    }

    /// The addresses that the server has seen.
    pub(crate) fn sources(&self) -> Vec<IpAddr> {
        self.stream.sources().into_keys().collect()
    }

    /// From when to when everything came back.
    pub(crate) fn served(&self) -> Vec<(Duration, Duration)> {
        let (mut served, mut from) = (Vec::new(), self.began);
        for gap in self.stream.gaps().into_iter().filter(|gap| gap.lost > 0) {
            served.push((from, self.clock.at(gap.from)));
            from = self.clock.at(gap.until);
        }
        served.push((from, self.clock.now()));
        served
    }

    /// Tells of the losses that are news.
    pub(crate) fn tell_losses(&mut self) {
        let gaps = self.stream.gaps();
        for gap in gaps[self.told..].iter().filter(|gap| gap.lost > 0) {
            let time = seconds(length(*gap));
            let what = format!(
                "client: {time} without an answer, {} packets lost",
                gap.lost
            );
            self.console.tell_at(self.clock.at(gap.until), &what);
        }
        self.told = gaps.len();
    }

    /// The TCP connection.
    pub(crate) fn talk(&self) -> &Talk {
        &self.talk
    }
}

fn length(gap: Gap) -> Duration {
    gap.until - gap.from
}

/// A TCP connection on which the client asks, the server answers, and so on.
pub(crate) struct Talk(Arc<Mutex<Exchanges>>);

#[derive(Default)]
struct Exchanges {
    count: u64,
    /// The longest since somebody last asked for it.
    longest: Duration,
    /// Why there are no more.
    ended: Option<String>,
}

impl Talk {
    /// Begins. It ends at the next answer after the handle is dropped: nobody waits for that.
    fn start(connection: Connection) -> Result<Self> {
        let exchanges = Arc::default();
        let shared = Arc::downgrade(&exchanges);
        thread::Builder::new()
            .name("talk".into())
            .spawn(move || talk(connection, &shared))
            .context("start the thread of the TCP connection")?;
        Ok(Self(exchanges))
    }

    /// How many questions have been answered.
    pub(crate) fn count(&self) -> u64 {
        lock(&self.0).count
    }

    /// How long the longest exchange took that has ended since this was last asked.
    pub(crate) fn take_longest(&self) -> Duration {
        std::mem::take(&mut lock(&self.0).longest)
    }

    /// Why it is dead, if it is.
    pub(crate) fn ended(&self) -> Option<String> {
        lock(&self.0).ended.clone()
    }
}

fn talk(mut connection: Connection, shared: &Weak<Mutex<Exchanges>>) {
    loop {
        let outcome = connection.exchange();
        let Some(exchanges) = shared.upgrade() else {
            return;
        };
        match outcome {
            Ok(took) => {
                let mut exchanges = lock(&exchanges);
                exchanges.count += 1;
                exchanges.longest = exchanges.longest.max(took);
            }
            Err(error) => {
                lock(&exchanges).ended = Some(format!("{error:#}"));
                return;
            }
        }
        drop(exchanges);
        thread::sleep(PAUSE);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
