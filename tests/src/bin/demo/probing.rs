//! The demo's own prober: a second opinion, five hundred times as often as the controller's.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use probe_ebpf::wire::NodeId;
use probe_user::session::{Event, ProbeSettings, Prober, Target, TargetId};
use probe_user::session::{ProbeSocket, SocketOptions, Waker};
use pulsepath_tests::Cluster;

use crate::clock::Clock;
use pulsepath_tests::report::Probes;

/// Time between two probes of one node.
const PERIOD: Duration = Duration::from_millis(1);
/// After this time an unanswered probe counts as lost.
pub(crate) const REPLY_WINDOW: Duration = Duration::from_millis(250);
const PORT: u16 = 862;
/// Answers that are further apart than this show as a gap, if probes went unanswered meanwhile.
const GAP: Duration = Duration::from_millis(25);

/// What one node answered.
#[derive(Clone, Debug, Default)]
struct Tally {
    probes: Probes,
    answers: Vec<(Duration, Duration)>,
    last_sequence: u32,
}

impl Tally {
    /// A pause counts as the node's silence only if it left a probe unanswered, not if the demo
    /// itself did not come to ask.
    fn answered(&mut self, at: Duration, sequence: u32) {
        self.probes.answered += 1;
        let asked_between = sequence != self.last_sequence.wrapping_add(1);
        self.last_sequence = sequence;
        match self.answers.last_mut() {
            Some((_, until)) if at.saturating_sub(*until) <= GAP || !asked_between => {
                *until = at.max(*until);
            }
            _ => self.answers.push((at, at)),
        }
    }
}

/// Probes every node at 1 kHz from the hub, on a thread of its own, until dropped.
pub(crate) struct Probing {
    tallies: Arc<Mutex<Vec<Tally>>>,
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Probing {
    /// Begins.
    pub(crate) fn start(cluster: &Cluster, clock: Clock) -> Result<Self> {
        let settings = ProbeSettings {
            period: PERIOD,
            reply_window: REPLY_WINDOW,
            port: PORT,
        };
        let mut prober = Prober::new(settings, std::process::id().into());
        for (id, node) in (0..).map(TargetId).zip(cluster.nodes()) {
            let name = node.name();
            let target = Target {
                node: NodeId::of(&name),
                keys: cluster.keys().node_keys(&name),
                addresses: vec![node.ipv4().into()],
            };
            prober.insert(Instant::now(), id, target)?;
        }
        let socket = cluster
            .hub()
            .enter(|| ProbeSocket::bind(&SocketOptions::default()))??;
        let tallies = Arc::new(Mutex::new(vec![Tally::default(); cluster.nodes().len()]));
        let stop = Arc::new(AtomicBool::new(false));
        let waker = socket.waker();
        let worker = Worker {
            prober,
            socket,
            clock,
            tallies: Arc::clone(&tallies),
            stop: Arc::clone(&stop),
        };
        let thread = thread::Builder::new()
            .name("probing".into())
            .spawn(move || worker.run())
            .context("start the prober's thread")?;
        Ok(Self {
            tallies,
            stop,
            waker,
            thread: Some(thread),
        })
    }

    /// What became of all probes of node `index` (from 1), those younger than the reply window
    /// left out.
    pub(crate) fn probes(&self, index: u8) -> Probes {
        self.with(index, |tally| tally.probes)
    }

    /// When node `index` last answered.
    pub(crate) fn last_answer(&self, index: u8) -> Option<Duration> {
        self.with(index, |tally| tally.answers.last().map(|(_, until)| *until))
    }

    /// From when to when node `index` answered without a gap.
    pub(crate) fn answers(&self, index: u8) -> Vec<(Duration, Duration)> {
        self.with(index, |tally| tally.answers.clone())
    }

    fn with<T>(&self, index: u8, look: impl FnOnce(&Tally) -> T) -> T {
        look(&lock(&self.tallies)[usize::from(index) - 1])
    }
}

impl Drop for Probing {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed already, and shows as probes that nobody sent.
            let _ = thread.join();
        }
    }
}

struct Worker {
    prober: Prober,
    socket: ProbeSocket,
    clock: Clock,
    tallies: Arc<Mutex<Vec<Tally>>>,
    stop: Arc<AtomicBool>,
}

impl Worker {
    fn run(mut self) {
        while !self.stop.load(Ordering::Relaxed) {
            if let Err(error) = self.turn() {
                eprintln!("the demo's prober gives up: {error}");
                return;
            }
        }
    }

    fn turn(&mut self) -> Result<()> {
        self.socket.wait(self.prober.next_wake())?;
        self.socket.exchange(&mut self.prober)?;
        let mut tallies = lock(&self.tallies);
        while let Some(event) = self.prober.poll_event() {
            match event {
                Event::Reply {
                    target, at, reply, ..
                } => {
                    tallies[target.0 as usize].answered(self.clock.at(at), reply.sequence);
                }
                Event::Lost { target, .. } => tallies[target.0 as usize].probes.lost += 1,
                Event::Round { .. } => {}
            }
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(answers: &[(u64, u32)]) -> Tally {
        let mut tally = Tally::default();
        for (time, sequence) in answers {
            tally.answered(Duration::from_millis(*time), *sequence);
        }
        tally
    }

    fn stretch(from: u64, until: u64) -> (Duration, Duration) {
        (Duration::from_millis(from), Duration::from_millis(until))
    }

    #[test]
    fn unanswered_probes_end_a_stretch_of_answers() {
        let tally = tally(&[(1, 7), (2, 8), (3, 9), (100, 106), (101, 107)]);
        assert_eq!(tally.answers, [stretch(1, 3), stretch(100, 101)]);
        assert_eq!(tally.probes.answered, 5);
    }

    #[test]
    fn a_pause_of_the_prober_itself_ends_no_stretch() {
        let tally = tally(&[(1, 7), (2, 8), (100, 9), (101, 10)]);
        assert_eq!(tally.answers, [stretch(1, 101)]);
    }

    #[test]
    fn answers_that_overtake_each_other_end_no_stretch() {
        let tally = tally(&[(1, 7), (3, 9), (2, 8), (4, 10)]);
        assert_eq!(tally.answers, [stretch(1, 4)]);
    }
}
