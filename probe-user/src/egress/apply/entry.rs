//! One egress IP on its way onto the node.

use std::time::{Duration, Instant};

use super::super::types::{AddressState, EgressIp};
use super::Link;

/// A duplicate probe takes this long; RFC 5227 in full would take seconds.
const PROBE: Duration = Duration::from_millis(300);
/// Between two messages of a duplicate probe.
const PROBE_GAP: Duration = Duration::from_millis(90);
/// How often an address that somebody else has is probed for again.
const PROBE_AGAIN: Duration = Duration::from_secs(5);
/// Announcements of a claim: one at once, and five more over five seconds.
const ANNOUNCEMENTS: u32 = 6;
const ANNOUNCEMENT_GAP: Duration = Duration::from_secs(1);
/// A conflict is over when two probes have gone unanswered.
const CONFLICT: Duration = Duration::from_secs(11);
/// An address that is held is defended this often at most (RFC 5227, DEFEND_INTERVAL).
const DEFENCE_GAP: Duration = Duration::from_secs(10);
/// A step that failed is tried again after this.
const RETRY: Duration = Duration::from_secs(2);

/// How far a claim has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Not on the node, nothing begun.
    Absent,
    /// Its interface is not there, or down.
    Waiting { reason: String, was_held: bool },
    /// Somebody else may have it; `duplicate` had it when it was probed for the last time.
    Probing {
        until: Instant,
        next: Instant,
        duplicate: Option<[u8; 6]>,
    },
    /// Somebody else has it.
    Duplicate { mac: [u8; 6], again: Instant },
    /// It is on the interface.
    Held(Held),
    /// It cannot be put on the node.
    Failed { error: String, again: Instant },
}

/// An address that the node holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) link: u32,
    /// Whether neighbours are told: it has a link layer, and the link is up.
    pub(super) announcing: bool,
    pub(super) link_up: bool,
    pub(super) announced: u32,
    next: Option<Instant>,
    defended: Option<Instant>,
    conflict: Option<Conflict>,
    comeback: Comeback,
}

/// What a link's return means for an address. While it was down, somebody else may have been given
/// the address: whoever announces it then takes traffic away from the new owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Comeback {
    /// The node speaks for the address.
    #[default]
    Over,
    /// Neighbours are asked until then.
    Asking(Instant),
    /// Somebody else has it: the node keeps silent as long as that is so, or it is told anew.
    Yielded,
}

/// Somebody else who claims the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Conflict {
    mac: [u8; 6],
    heard: Instant,
    probe: Instant,
}

/// A desired egress IP and how far it has come.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) egress_ip: EgressIp,
    pub(super) phase: Phase,
}

/// What an entry wants to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) probe: bool,
    pub(super) announce: bool,
}

impl Phase {
    /// The phase of an address that is probed for from now on.
    pub(super) fn probed(&self, now: Instant) -> Self {
        let duplicate = match self {
            Self::Duplicate { mac, .. } => Some(*mac),
            _ => None,
        };
        Self::Probing {
            until: now + PROBE,
            next: now,
            duplicate,
        }
    }

    /// The phase of an address whose interface is not there, or down.
    pub(super) fn waiting(&self, reason: String) -> Self {
        let was_held = matches!(self, Self::Held(_) | Self::Waiting { was_held: true, .. });
        Self::Waiting { reason, was_held }
    }

    /// Whether it can be claimed without being probed for: it has been, or the node had it.
    pub(super) fn is_safe(&self) -> bool {
        matches!(
            self,
            Self::Held(_) | Self::Probing { .. } | Self::Waiting { was_held: true, .. }
        )
    }

    pub(super) fn duplicate(now: Instant, mac: [u8; 6]) -> Self {
        Self::Duplicate {
            mac,
            again: now + PROBE_AGAIN,
        }
    }

    pub(super) fn failed(now: Instant, error: String) -> Self {
        Self::Failed {
            error,
            again: now + RETRY,
        }
    }
}

impl Held {
    pub(super) fn new(now: Instant, link: &Link) -> Self {
        let announcing = link.mac.is_some() && !link.loopback;
        Self {
            link: link.index,
            announcing,
            link_up: link.up,
            announced: 0,
            next: (announcing && link.up).then_some(now),
            defended: None,
            conflict: None,
            comeback: Comeback::Over,
        }
    }

    /// Told that the node is to have it, by whoever knows who else had it.
    pub(super) fn told(&mut self) {
        if self.comeback == Comeback::Yielded {
            // Due at once; whoever else had it has it no more.
            self.next = self.conflict.take().map(|conflict| conflict.heard);
        }
        self.comeback = Comeback::Over;
    }

    /// Follows the link. Neighbours behind a link that was down may have forgotten the address, or
    /// have another owner for it.
    pub(super) fn follow(&mut self, now: Instant, link: &Link) {
        if link.up && !self.link_up && self.announcing {
            (self.announced, self.next) = (0, Some(now));
            self.comeback = Comeback::Asking(now + PROBE);
        }
        self.link_up = link.up;
    }

    fn conflict(&mut self, now: Instant, mac: [u8; 6]) {
        let probe = self.conflict.map_or(now + PROBE_AGAIN, |it| it.probe);
        self.conflict = Some(Conflict {
            mac,
            heard: now,
            probe,
        });
        if self.comeback != Comeback::Over {
            (self.comeback, self.next) = (Comeback::Yielded, None);
            return;
        }
        let defend = self
            .defended
            .is_none_or(|last| now.duration_since(last) >= DEFENCE_GAP);
        if defend && self.announcing && self.link_up {
            self.defended = Some(now);
            self.next = Some(now);
        }
    }

    fn wanted(&mut self, now: Instant) -> Wanted {
        let mut wanted = Wanted::default();
        if !self.link_up {
            return wanted;
        }
        if self.next.is_some_and(|next| next <= now) {
            if let Comeback::Asking(until) = self.comeback
                && now < until
            {
                self.next = Some(until.min(now + PROBE_GAP));
                wanted.probe = true;
                return wanted;
            }
            self.comeback = Comeback::Over;
            self.announced += 1;
            self.next = (self.announced < ANNOUNCEMENTS).then(|| now + ANNOUNCEMENT_GAP);
            // A claim that did not wait for a probe is probed beside; later ones do no harm.
            wanted = Wanted {
                probe: true,
                announce: true,
            };
        }
        if let Some(conflict) = &mut self.conflict
            && conflict.probe <= now
        {
            conflict.probe = now + PROBE_AGAIN;
            wanted.probe = true;
            if now.duration_since(conflict.heard) >= CONFLICT {
                self.conflict = None;
                if self.comeback == Comeback::Yielded {
                    (self.comeback, self.next) = (Comeback::Over, Some(now));
                }
            }
        }
        wanted
    }

    fn state(&self) -> AddressState {
        match self.conflict {
            Some(conflict) => AddressState::Duplicate { mac: conflict.mac },
            None if !self.link_up => failed("its interface is down"),
            None if self.announced > 0 => AddressState::Announced,
            None => AddressState::Configured,
        }
    }

    fn next_wake(&self) -> Option<Instant> {
        if !self.link_up {
            return None;
        }
        let probe = self.conflict.map(|conflict| conflict.probe);
        self.next.into_iter().chain(probe).min()
    }
}

impl Entry {
    /// Somebody else claims the address. `probing`: only asks for it, as one does before claiming.
    pub(super) fn conflict(&mut self, now: Instant, mac: [u8; 6], probing: bool) {
        match &mut self.phase {
            Phase::Probing { .. } => self.phase = Phase::duplicate(now, mac),
            Phase::Held(held) if !probing => held.conflict(now, mac),
            Phase::Duplicate { mac: known, again } if !probing => {
                (*known, *again) = (mac, now + PROBE_AGAIN);
            }
            _ => {}
        }
    }

    /// What is to be sent now.
    pub(super) fn wanted(&mut self, now: Instant) -> Wanted {
        match &mut self.phase {
            Phase::Probing { next, .. } if *next <= now => {
                *next = now + PROBE_GAP;
                Wanted {
                    probe: true,
                    announce: false,
                }
            }
            Phase::Held(held) => held.wanted(now),
            _ => Wanted::default(),
        }
    }

    /// An announcement or a probe could not be sent. A claim that nobody was asked about fails.
    pub(super) fn not_sent(&mut self, now: Instant, error: String) {
        match &mut self.phase {
            Phase::Probing { .. } => self.phase = Phase::failed(now, error),
            Phase::Held(held) if held.announcing => {
                held.announced = held.announced.saturating_sub(1);
                held.next = Some(now + ANNOUNCEMENT_GAP);
            }
            _ => {}
        }
    }

    /// Whether what becomes of the claim is still open, though nothing is wrong.
    pub(super) fn is_open(&self) -> bool {
        matches!(
            self.phase,
            Phase::Absent
                | Phase::Probing {
                    duplicate: None,
                    ..
                }
        )
    }

    pub(super) fn next_wake(&self, now: Instant) -> Option<Instant> {
        match &self.phase {
            Phase::Absent => Some(now),
            Phase::Waiting { .. } => None,
            Phase::Probing { until, next, .. } => Some(*until.min(next)),
            Phase::Duplicate { again, .. } | Phase::Failed { again, .. } => Some(*again),
            Phase::Held(held) => held.next_wake(),
        }
    }

    pub(super) fn state(&self) -> AddressState {
        match &self.phase {
            Phase::Probing {
                duplicate: Some(mac),
                ..
            }
            | Phase::Duplicate { mac, .. } => AddressState::Duplicate { mac: *mac },
            Phase::Absent | Phase::Probing { .. } => failed("not claimed yet"),
            Phase::Waiting { reason: error, .. } | Phase::Failed { error, .. } => failed(error),
            Phase::Held(held) => held.state(),
        }
    }
}

fn failed(error: &str) -> AddressState {
    AddressState::Failed {
        error: error.to_owned(),
    }
}
