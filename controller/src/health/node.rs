//! What is known of one node.

use std::time::{Duration, Instant};

use super::evidence::Testimony;
use super::rules::LONGEST;
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

/// A packet that somebody received from a tunnel of a node that nobody hears.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    /// There has been none since then.
    silence: Silence,
    /// After how long a silence of the node its lease is over.
    lease: Option<Duration>,
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
    /// The newest packet from its tunnels that counts in its favour.
    pub(super) packet: Option<Packet>,
    /// It is known that it is the way to the controller that fails.
    pub(super) path_down: bool,
    /// Nobody hears it, and it keeps its state since its tunnels are busy.
    pub(super) only_tunnels: bool,
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
            packet: None,
            path_down: false,
            only_tunnels: false,
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

    /// When the last packet from its tunnels was received that counted in its favour.
    pub fn last_packet(&self) -> Option<Instant> {
        self.packet.map(|packet| packet.silence.from())
    }

    /// Until when it keeps its state at most, if nothing but its tunnels says that it works.
    pub fn kept_until(&self, timeout: Duration) -> Option<Instant> {
        let packet = self.packet.filter(|_| self.only_tunnels)?;
        let longest = timeout * LONGEST;
        let longest = packet.lease.map_or(longest, |lease| lease.min(longest));
        Some(self.unheard.will_last(longest))
    }

    /// It answered the controller.
    pub(super) fn hear(&mut self, at: Instant) {
        self.silence.interrupt(at);
        self.unheard.interrupt(at);
        self.heard = self.heard.max(Some(at));
        self.packet = None;
        self.only_tunnels = false;
    }

    /// It has all the time again: it is probed elsewhere from now on.
    pub(super) fn restart(&mut self, now: Instant) {
        self.silence = Silence::since(now);
        self.unheard = Silence::since(now);
        self.packet = None;
        self.only_tunnels = false;
    }

    pub(super) fn excuse(&mut self, due: Instant, excused: Duration) {
        self.silence.excuse(due, excused);
        self.unheard.excuse(due, excused);
        if let Some(packet) = &mut self.packet {
            packet.silence.excuse(due, excused);
        }
    }

    /// Somebody else says something; the newest counts.
    pub(super) fn testify(&mut self, testimony: Testimony) {
        let known = self.testimony.map(|known| known.at);
        if known > Some(testimony.at) {
            return;
        }
        self.testimony = Some(testimony);
        self.packet = None;
        match testimony.lease_over {
            false => self.unheard.interrupt(testimony.at),
            // Whatever was said before does not help any more.
            true => self.unheard = self.silence,
        }
    }

    /// Somebody received a packet from one of its tunnels. What came sooner than half the timeout
    /// after it was heard may have come before whatever has happened.
    pub(super) fn note_packet(&mut self, at: Instant, lease: Option<Duration>, timeout: Duration) {
        let counts = self.unheard.lasted(at) > timeout / 2 && self.last_packet() <= Some(at);
        if counts && self.state != State::Unreachable {
            let silence = Silence::since(at);
            self.packet = Some(Packet { silence, lease });
        }
    }

    /// What it amounts to that the controller has no reply to its last probe.
    pub(super) fn unanswered(&self, now: Instant) -> ProbeOutcome {
        let unheard = self.unheard.lasted(now);
        let news = self.testimony.filter(|it| it.at > self.silence.from());
        if news.is_some_and(|it| it.lease_over) {
            return ProbeOutcome::LeaseOver(unheard);
        }
        match self.packet {
            Some(packet) => ProbeOutcome::TunnelsBusy {
                silence: unheard,
                packet: packet.silence.lasted(now),
                lease: packet.lease,
            },
            None => ProbeOutcome::Silence(unheard),
        }
    }
}
