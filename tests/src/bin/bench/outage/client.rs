//! The client that looks on while the owner of its egress IP is cut off.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pulsepath_tests::egress::{Connection, EGRESS_IP, External, PATIENCE, Stream};

/// Answers before a cut and after it: enough to know that packets flow.
const SOME: u64 = 100;
/// Each cut comes so much later, in answers, than the one before: they fall into all phases of
/// whatever the contender does periodically, the longest of which is a second.
const STAGGER: (u64, u64) = (137, 1_000);
/// The connection's pause between two exchanges.
const PAUSE: Duration = Duration::from_millis(10);

/// Something that keeps the egress IP on one of nodes 1 and 2.
pub(super) trait Contender {
    /// The segment with the client.
    fn external(&self) -> &External;

    /// The node that has the egress IP.
    fn owner(&self) -> Result<u8>;

    /// Takes all links of node `index` away.
    fn cut(&self, index: u8) -> Result<()>;

    /// Waits until node `index` has the egress IP.
    fn await_owner(&self, index: u8) -> Result<()>;

    /// Gives node `index` its links back, and waits until it could take the egress IP over again.
    fn mend(&self, index: u8) -> Result<()>;
}

/// What the client saw of one cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    /// How long nothing came back.
    pub(super) outage: Duration,
    /// The connection that was busy all the time goes on.
    pub(super) alive: bool,
}

/// Cuts the owner off under the eyes of a client, and mends it. `number` counts the cuts.
pub(super) fn cut(contender: &impl Contender, number: u32) -> Result<Cut> {
    let owner = contender.owner()?;
    let other = 3 - owner;
    let talk = Talk::start(Connection::open(contender.external())?);
    let stream = Stream::start(contender.external())?;
    let (step, round) = STAGGER;
    stream.await_answers(SOME + u64::from(number) * step % round, PATIENCE)?;
    contender.cut(owner)?;
    contender.await_owner(other)?;
    stream.await_answers(SOME, PATIENCE)?;
    let report = stream.finish();
    let sources: Vec<_> = report.sources.keys().copied().collect();
    ensure!(sources == [IpAddr::from(EGRESS_IP)], "{report:?}");
    let alive = talk.finish()?;
    contender.mend(owner)?;
    let outage = report.longest_gap;
    println!("  n{owner} -> n{other}: {outage:.1?}, connection alive: {alive}");
    Ok(Cut { outage, alive })
}

/// A connection that never rests, so that something is always under way when the owner is cut.
struct Talk {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Result<()>>,
}

impl Talk {
    fn start(mut connection: Connection) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let is_over = over.clone();
        let thread = thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                connection.exchange()?;
                thread::sleep(PAUSE);
            }
            connection.exchange().map(drop)
        });
        Self { over, thread }
    }

    /// Whether the connection goes on, once it had time for lost packets to be sent again.
    fn finish(self) -> Result<bool> {
        self.over.store(true, Ordering::Relaxed);
        let outcome = self.thread.join().ok().context("the connection's thread")?;
        Ok(outcome.is_ok())
    }
}
