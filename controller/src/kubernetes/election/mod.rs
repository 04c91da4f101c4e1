//! Who leads, by a Kubernetes Lease: judged on this process's own clock alone.
//!
//! Nobody's wall clock is believed, and no time in the Lease is read but its length. A leader counts its
//! term from before it asked for it; a challenger counts the lease from after it saw it change. So a
//! challenger never begins before the leader has stopped, if their clocks run at rates that differ by
//! less than 1 %, however long requests take.

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

/// By which rules a leader is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ElectionSettings {
    /// Who this is; no other process has the same, not even the one before in the same Pod.
    pub(super) identity: String,
    /// How long a lease lasts.
    pub(super) duration: Duration,
    /// How often it is renewed, and looked at.
    pub(super) renew: Duration,
}

/// The Lease as the API server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    /// Its `resourceVersion`.
    pub(super) version: String,
    /// Who holds it; empty: nobody.
    pub(super) holder: String,
    /// How long it lasts.
    pub(super) duration: Duration,
    /// How often it went from one to another.
    pub(super) transitions: i32,
}

/// What is to be asked of the API server; one thing at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// The Lease.
    Read,
    /// Make this the Lease.
    Write {
        /// Only if it still has this version; `None`: only if there is none.
        version: Option<String>,
        /// Who holds it then; empty: nobody.
        holder: String,
        /// How often it has gone from one to another then.
        transitions: i32,
    },
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The Lease; `None`: there is none.
    Read(Option<Held>),
    /// It was written, and is this now.
    Written(Held),
    /// It was not written: it is another one now.
    Conflict,
    /// Nobody knows.
    Failed,
}

/// A term of this process as the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Term {
    /// Another one for each term of this process.
    pub(super) number: u64,
    /// When it ends, unless it is renewed.
    pub(super) end: Instant,
}

#[derive(Clone, Debug)]
enum Known {
    Nothing,
    /// There is no Lease.
    Absent,
    /// As it was first seen at that time.
    Lease(Held, Instant),
}

/// Finds out who leads.
#[derive(Debug)]
pub(super) struct Election {
    settings: ElectionSettings,
    known: Known,
    /// When the request that is under way was made.
    asked: Option<Instant>,
    next: Instant,
    term: Option<Term>,
    terms: u64,
    releasing: bool,
}

impl Election {
    /// Knows nothing yet.
    pub(super) fn new(now: Instant, settings: ElectionSettings) -> Self {
        Self {
            settings,
            known: Known::Nothing,
            asked: None,
            next: now,
            term: None,
            terms: 0,
            releasing: false,
        }
    }

    /// This process's term, if it leads.
    pub(super) fn term(&self, now: Instant) -> Option<Term> {
        self.term.filter(|term| now < term.end)
    }

    /// Who leads, as far as that is known.
    pub(super) fn leader(&self, now: Instant) -> Option<&str> {
        if self.term(now).is_some() {
            return Some(&self.settings.identity);
        }
        match &self.known {
            Known::Lease(held, seen)
                if held.holder != self.settings.identity && !self.is_free(held, *seen, now) =>
            {
                Some(&held.holder)
            }
            Known::Nothing | Known::Absent | Known::Lease(..) => None,
        }
    }

    /// Ends this process's term at once, and gives the Lease away as soon as possible; after a while
    /// it takes part again.
    pub(super) fn release(&mut self, now: Instant) {
        self.releasing = self.term.take().is_some();
        self.next = now;
    }

    /// Whether the Lease still has to be given away.
    pub(super) fn is_releasing(&self) -> bool {
        self.releasing
    }

    /// When [`poll`](Self::poll) has something to ask, unless a request is under way.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.asked.is_none().then_some(self.next)
    }

    /// What is to be asked now, if anything. Whatever comes of it is told by
    /// [`handle`](Self::handle).
    pub(super) fn poll(&mut self, now: Instant) -> Option<Request> {
        if self.asked.is_some() || now < self.next {
            return None;
        }
        let request = self.request(now);
        self.asked = Some(now);
        Some(request)
    }

    fn request(&self, now: Instant) -> Request {
        let me = &self.settings.identity;
        let write = |version: Option<&String>, holder: &str, transitions| Request::Write {
            version: version.cloned(),
            holder: holder.to_owned(),
            transitions,
        };
        match &self.known {
            Known::Nothing => Request::Read,
            Known::Absent => write(None, me, 0),
            Known::Lease(held, _) if held.holder == *me => {
                let holder = if self.releasing { "" } else { me };
                write(Some(&held.version), holder, held.transitions)
            }
            Known::Lease(held, seen) if self.is_free(held, *seen, now) => {
                write(Some(&held.version), me, held.transitions + 1)
            }
            Known::Lease(..) => Request::Read,
        }
    }

    fn is_free(&self, held: &Held, seen: Instant, now: Instant) -> bool {
        held.holder.is_empty() || now >= seen + held.duration.max(self.settings.duration)
    }

    /// Takes note of what became of the request.
    pub(super) fn handle(&mut self, now: Instant, answer: Answer) {
        let Some(asked) = self.asked.take() else {
            return;
        };
        self.next = asked + self.settings.renew;
        match answer {
            Answer::Read(None) => {
                self.lose();
                (self.known, self.next) = (Known::Absent, now);
            }
            Answer::Read(Some(held)) => self.handle_lease(now, held),
            Answer::Written(held) => self.handle_written(now, asked, held),
            Answer::Conflict => (self.known, self.next) = (Known::Nothing, now),
            Answer::Failed => self.next = now + self.settings.renew,
        }
    }

    fn handle_lease(&mut self, now: Instant, held: Held) {
        let seen = match &self.known {
            Known::Lease(known, seen) if known.version == held.version => *seen,
            Known::Nothing | Known::Absent | Known::Lease(..) => now,
        };
        let is_own = held.holder == self.settings.identity;
        if !is_own {
            self.lose();
        }
        if is_own || self.is_free(&held, seen, now) {
            self.next = now;
        }
        self.known = Known::Lease(held, seen);
    }

    fn handle_written(&mut self, now: Instant, asked: Instant, held: Held) {
        let is_own = held.holder == self.settings.identity;
        if !is_own {
            // It was given away.
            self.lose();
            self.next = now + self.settings.duration;
        } else if !self.releasing {
            let number = match self.term(now) {
                Some(term) => term.number,
                None => {
                    self.terms += 1;
                    self.terms
                }
            };
            // Clocks' rates may differ.
            let end = asked + self.settings.duration * 49 / 50;
            self.term = Some(Term { number, end });
        }
        self.known = Known::Lease(held, now);
    }

    fn lose(&mut self) {
        self.term = None;
        self.releasing = false;
    }
}
