//! A term in which this controller decides: whom it tells, and what happens in it.

use std::time::Instant;

use probe_user::channel::{Security, WitnessReport};
use probe_user::keys::NodeKey;
use tokio::sync::oneshot;

use super::agents::Agents;
use super::egress::{Configured, Request};
use super::keying::Keying;
use super::role::{Recorder, Role};
use super::witnessing::{Probes, Witnessing};
use crate::channel::Answer;
use crate::failover::Record;
use crate::monitor::driver::Echoed;
use crate::tenure::Tenure;

/// A term in which this controller decides.
pub(super) struct Leading {
    pub(super) recorder: Recorder,
    pub(super) tenure: Tenure,
    pub(super) told: Told,
    /// Who waits for which version of the record.
    pub(super) waiting: Vec<(u64, oneshot::Sender<bool>)>,
}

/// How agents are told; `security`: whether there is a control channel at all.
#[derive(Clone)]
pub(crate) struct Channel {
    pub(crate) security: Option<Security>,
    /// Where agents listen.
    pub(crate) port: u16,
    pub(crate) probes: Probes,
}

/// Who is told what.
pub(super) struct Told {
    /// What their nodes shall hold.
    pub(super) agents: Agents,
    /// Their duty as witnesses.
    pub(super) witnesses: Witnessing,
    /// Their nodes' probe keys.
    pub(super) keys: Keying,
}

impl Told {
    /// Nobody has been told anything yet in this term.
    fn new(channel: &Channel, record: &Record) -> Self {
        let Channel {
            security,
            port,
            probes,
        } = channel.clone();
        let mut witnesses = Witnessing::new(security.clone(), port, probes);
        let mut agents = Agents::new(security.clone(), port);
        witnesses.remember(&record.reach);
        agents.remember(record.reach.clone());
        Self {
            agents,
            witnesses,
            keys: Keying::new(security, port),
        }
    }

    pub(super) fn follow(&mut self, configured: Configured) {
        let Configured { specs, keys, .. } = configured;
        self.keys.follow(&specs);
        self.witnesses.follow(&specs, keys);
        self.agents.follow(specs);
    }
}

/// What happened.
pub(super) enum Happened {
    Requested(Request),
    Became(Role),
    Answered(Answer),
    Testified(Answer<WitnessReport>),
    Keyed(Answer<Vec<NodeKey>>),
    Recorded(u64),
    Renewed(Echoed),
    /// A node's state changed, or it is time.
    Look,
    /// Nobody can ask for anything any more.
    Ended,
}

impl Leading {
    /// A term that goes on from `record`.
    pub(super) fn begin(
        channel: &Channel,
        recorder: Recorder,
        tenure: Tenure,
        record: &Record,
    ) -> Self {
        Self {
            recorder,
            tenure,
            told: Told::new(channel, record),
            waiting: Vec::new(),
        }
    }

    /// The next thing that happens in this term; at `wake` at the latest.
    pub(super) async fn next(&mut self, wake: Option<Instant>) -> Happened {
        tokio::select! {
            Some(answer) = self.told.agents.answer() => Happened::Answered(answer),
            Some(answer) = self.told.witnesses.answer() => Happened::Testified(answer),
            Some(answer) = self.told.keys.answer() => Happened::Keyed(answer),
            Some(version) = self.recorder.recorded() => Happened::Recorded(version),
            () = sleep_until(wake) => Happened::Look,
            () = sleep_until(self.tenure.end()) => Happened::Look,
        }
    }

    /// An answer that has come already.
    pub(super) fn answer_at_hand(&mut self) -> Option<Answer> {
        self.told.agents.answer_at_hand()
    }

    /// Answers those who wait for a version of the record that is durable.
    pub(super) fn answer_waiting(&mut self, recorded: u64) {
        let (done, waiting): (Vec<_>, _) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|(version, _)| *version <= recorded);
        self.waiting = waiting;
        for (_, done) in done {
            // The request may be gone.
            let _ = done.send(true);
        }
    }
}

async fn sleep_until(wake: Option<Instant>) {
    match wake {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
