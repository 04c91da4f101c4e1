//! Another node's agent, which is asked and answers.

use std::time::{Duration, Instant};

use controller::monitor::{Ask, Testimony};
use probe_ebpf::wire::NodeId;
use probe_user::channel::{Duty, Watched};
use probe_user::witness::{Memory, Outcome, QuestionId, Witness};

use super::{LEASE, PERIOD, PORT};

/// Nothing is promised here, so nothing has to be remembered.
struct Forgetful(u64);

impl Memory for Forgetful {
    fn instance(&self) -> u64 {
        self.0
    }

    fn is_new(&self) -> bool {
        true
    }

    fn floor(&self, _: NodeId) -> u64 {
        0
    }

    fn raise(&mut self, _: NodeId, _: u64) -> Outcome<()> {
        Ok(())
    }
}

pub(super) struct Agent {
    pub(super) witness: Witness,
    /// Questions that are not answered yet.
    asked: Vec<(QuestionId, Instant, Ask)>,
}

impl Agent {
    /// The agent of node `name`, which probes `watched` all the time.
    pub(super) fn new(now: Instant, name: &str, seed: u64, watched: Option<Watched>) -> Self {
        let memory = Box::new(Forgetful(seed + 1));
        let mut witness = Witness::new(now, NodeId::of(name), Some(memory), seed);
        let duty = Duty {
            version: 1,
            instance: witness.instance(),
            watched: watched.into_iter().collect(),
            period: PERIOD,
            lease: LEASE,
            port: PORT,
        };
        witness.take_on(now, &duty).unwrap();
        Self {
            witness,
            asked: Vec::new(),
        }
    }

    /// A question arrives that was put at `asked`.
    pub(super) fn ask(&mut self, now: Instant, asked: Instant, ask: Ask) {
        let id = self.witness.ask(now, &ask.question(PORT)).unwrap();
        self.asked.push((id, asked, ask));
    }

    /// What it has to say since it was last asked for that, and until when that is of use.
    pub(super) fn answers(&mut self, now: Instant) -> Vec<(Instant, Testimony)> {
        self.witness.digest(now);
        let mut testimonies = Vec::new();
        while let Some((id, report)) = self.witness.poll_answer() {
            let at = self.asked.iter().position(|(other, ..)| *other == id);
            let (_, asked, ask) = self.asked.swap_remove(at.unwrap());
            let deadline = asked + ask.wait + Duration::from_millis(100);
            let testimony = ask.testimony(asked, &report.heard);
            testimonies.extend(testimony.map(|it| (deadline, it)));
        }
        testimonies
    }
}
