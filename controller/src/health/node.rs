//! What is known of one node.

use std::time::{Duration, Instant};

use super::evidence::{Evidence, Testimony};
use super::silence::Silence;
use super::{ProbeOutcome, Reason, State};

/// What an earlier controller knew of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Its state.
    pub state: State,
    /// Why.
    pub reason: Reason,
    /// How long it had been in that state, the time without a controller included.
    pub age: Duration,
    /// Its incarnation; `None`: it never answered.
    pub incarnation: Option<u64>,
}

/// A monitored node.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    pub(super) state: State,
    pub(super) reason: Reason,
    pub(super) since: Instant,
    pub(super) announced: bool,
    pub(super) heard: Option<Instant>,
    /// The controller hears nothing: since the last reply, or since probing of the present addresses
    /// began.
    pub(super) silence: Silence,
    /// Neither does anybody else.
    pub(super) unheard: Silence,
    /// The newest that somebody else said.
    pub(super) testimony: Option<Testimony>,
    /// It is known that it is the way to the controller that fails.
    pub(super) path_down: bool,
    pub(super) incarnation: Option<u64>,
    /// The state is an earlier controller's: it is worth nothing in another incarnation.
    pub(super) restored: bool,
}

impl Node {
    pub(super) fn new(now: Instant, recorded: Option<Recorded>) -> Self {
        let fresh = Self {
            state: State::Unknown,
            reason: Reason::NotYetDecided,
            since: now,
            announced: false,
            heard: None,
            silence: Silence::since(now),
            unheard: Silence::since(now),
            testimony: None,
            path_down: false,
            incarnation: None,
            restored: false,
        };
        match recorded {
            None => fresh,
            Some(recorded) => Self {
                state: recorded.state,
                reason: recorded.reason,
                since: now.checked_sub(recorded.age).unwrap_or(now),
                incarnation: recorded.incarnation,
                restored: true,
                ..fresh
            },
        }
    }

    /// Its state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Why it is in that state.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// Whether the controller does not hear it, but others do.
    pub fn is_path_down(&self) -> bool {
        self.path_down
    }

    /// For how long the controller has not heard it, without excused time.
    pub fn silence(&self, now: Instant) -> Duration {
        self.silence.lasted(now)
    }

    /// It answered the controller.
    pub(super) fn hear(&mut self, at: Instant) {
        self.silence.interrupt(at);
        self.unheard.interrupt(at);
        self.heard = self.heard.max(Some(at));
    }

    /// It has all the time again: it is probed elsewhere from now on.
    pub(super) fn restart(&mut self, now: Instant) {
        self.silence = Silence::since(now);
        self.unheard = Silence::since(now);
    }

    pub(super) fn excuse(&mut self, due: Instant, excused: Duration) {
        self.silence.excuse(due, excused);
        self.unheard.excuse(due, excused);
    }

    /// Somebody else says something; the newest counts.
    pub(super) fn testify(&mut self, testimony: Testimony) {
        let known = self.testimony.map(|known| known.at);
        if known > Some(testimony.at) {
            return;
        }
        self.testimony = Some(testimony);
        match testimony.evidence {
            Evidence::Answered { lease_over: false } => self.unheard.interrupt(testimony.at),
            // Whatever was said before does not help any more.
            Evidence::Answered { lease_over: true } => self.unheard = self.silence,
        }
    }

    /// What it amounts to that the controller has no reply to its last probe.
    pub(super) fn unanswered(&self, now: Instant) -> ProbeOutcome {
        let unheard = self.unheard.lasted(now);
        let news = self.testimony.filter(|it| it.at > self.silence.from());
        match news.map(|it| it.evidence) {
            Some(Evidence::Answered { lease_over: true }) => ProbeOutcome::LeaseOver(unheard),
            Some(Evidence::Answered { lease_over: false }) | None => ProbeOutcome::Silence(unheard),
        }
    }
}
