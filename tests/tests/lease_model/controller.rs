//! A controller replica: its election, its term, what it knows of each gateway node, and what it may decide.
//! When an address is safe to move is in [`crate::safe`].

use crate::{
    kernel::{Request, Right},
    record::{Epoch, Lock, Record, Terms},
    rules::{Clause, Rules},
    time::{Clock, MS, Ns},
    witness::{Heard, Instance, Promise},
    world::{GATEWAYS, NODES},
};

/// How long a leader acts after the request by which it last renewed the lock.
const HOLD: Ns = 1000 * MS;
/// How long a standby must have seen the lock unchanged before it takes it: 1 % more.
const TAKE: Ns = 1010 * MS;

/// What a deciding controller knows of a gateway node beside the record. Lost with its process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct View {
    pub(crate) heard: Option<Heard>,
    /// The incarnation changed since this process first heard the node.
    pub(crate) rebooted: bool,
    /// The floor that RENEWs name.
    pub(crate) floor: Epoch,
    /// When the newest reply arrived that any RENEW has echoed.
    pub(crate) newest_basis: Ns,
    /// The same, of RENEWs that named a lower floor than `floor`.
    pub(crate) basis_below: Ns,
    /// By host of the witness: promise, and when its last vote's basis was, by this controller's clock.
    pub(crate) promises: [Option<(Promise, Ns)>; NODES],
    /// Newest epoch and version of the set that the agent has confirmed.
    pub(crate) confirmed: Option<(Epoch, u16)>,
    /// When the agent last confirmed anything.
    pub(crate) confirmed_at: Ns,
    /// When the agent first confirmed the version of the set in `confirmed`.
    pub(crate) version_at: Ns,
}

impl View {
    const fn new(floor: Epoch) -> Self {
        Self {
            heard: None,
            rebooted: false,
            floor,
            newest_basis: 0,
            basis_below: 0,
            promises: [None; NODES],
            confirmed: None,
            confirmed_at: 0,
            version_at: 0,
        }
    }

    /// From now on RENEWs name this floor.
    fn raise(&mut self, floor: Epoch) {
        if floor > self.floor {
            self.floor = floor;
            self.basis_below = self.newest_basis;
        }
    }
}

/// A term in which this process decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Term {
    pub(crate) number: u16,
    pub(crate) start: Ns,
}

/// A controller replica.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Controller {
    pub(crate) clock: Clock,
    /// Which process this is: answers to its predecessors do not reach it.
    pub(crate) process: u16,
    /// The term ends when the own clock shows this.
    leads_until: Ns,
    /// When leading began; survives the process (only [`Clause::TermStartsWithProcess`] tempts to use it).
    led_since: Option<Ns>,
    /// The lock as last seen, and since when.
    seen: Option<(u16, Ns)>,
    pub(crate) term: Option<Term>,
    /// The record as last written or read.
    pub(crate) record: Record,
    /// A write is under way, and its outcome unknown.
    pub(crate) writing: bool,
    pub(crate) views: [View; GATEWAYS],
}

/// What an attempt to lead comes to.
pub(crate) enum Election {
    /// Nothing to do now.
    Wait,
    /// Looked at the lock.
    Looked,
    /// Send a request for the lock on the condition that it is as seen.
    Request { renewals: u16 },
}

impl Controller {
    /// A replica that has just started. A standalone controller leads without election.
    pub(crate) fn new(clock: Clock, record: Record, standalone: bool) -> Self {
        Self {
            clock,
            process: 0,
            leads_until: if standalone { Ns::MAX } else { 0 },
            led_since: None,
            seen: None,
            term: None,
            record,
            writing: false,
            views: [const { View::new(Epoch::NONE) }; GATEWAYS],
        }
    }

    /// Its process dies, and another starts.
    pub(crate) fn restart(&mut self, rules: Rules, standalone: bool) {
        let fresh = Self::new(self.clock, self.record.clone(), standalone);
        let led_since = self
            .led_since
            .filter(|_| !rules.has(Clause::TermStartsWithProcess));
        *self = Self {
            process: self.process + 1,
            led_since,
            ..fresh
        };
    }

    /// Whether it may decide.
    pub(crate) fn decides(&self, rules: Rules, now: Ns) -> bool {
        self.term.is_some() && self.within_term(rules, now)
    }

    fn within_term(&self, rules: Rules, at: Ns) -> bool {
        at < self.leads_until || !rules.has(Clause::ActsWithinTerm)
    }

    /// Whether it can claim the record.
    pub(crate) fn may_claim(&self, now: Ns) -> bool {
        self.term.is_none() && !self.writing && now < self.leads_until
    }

    /// Looks at the lock, and decides whether to take or renew it.
    pub(crate) fn elect(&mut self, rules: Rules, me: u8, now: Ns, lock: Lock) -> Election {
        match self.seen {
            Some((renewals, since)) if renewals == lock.renewals => {
                let mine = lock.holder.is_none_or(|holder| holder == me);
                if mine || now >= since + TAKE {
                    Election::Request { renewals }
                } else {
                    Election::Wait
                }
            }
            _ => {
                self.seen = Some((lock.renewals, now));
                if lock.holder != Some(me) && rules.has(Clause::ActsWithinTerm) {
                    self.term = None;
                    self.led_since = None;
                }
                Election::Looked
            }
        }
    }

    /// The lock was granted on a request of this process that was sent at `asked`.
    pub(crate) fn handle_elected(&mut self, rules: Rules, now: Ns, asked: Ns, renewals: u16) {
        self.seen = Some((renewals, now));
        let from = if rules.has(Clause::TermFromBeforeRequest) {
            asked
        } else {
            now
        };
        self.leads_until = self.leads_until.max(from + HOLD);
    }

    /// The term begins: the record is read, and claimed.
    pub(crate) fn begin_term(&mut self, rules: Rules, now: Ns, record: Record) {
        let began = self
            .led_since
            .filter(|_| !rules.has(Clause::TermStartsWithProcess));
        let start = began.unwrap_or(now);
        self.led_since = Some(start);
        self.term = Some(Term {
            number: record.term,
            start,
        });
        for (view, node) in self.views.iter_mut().zip(&record.nodes) {
            *view = View {
                heard: view.heard,
                ..View::new(node.floor)
            };
        }
        self.record = record;
    }

    /// A write of this process was carried out.
    pub(crate) fn handle_written(&mut self, rules: Rules, now: Ns, record: Record) {
        self.writing = false;
        if self.term.is_none() {
            self.begin_term(rules, now, record);
        } else {
            self.adopt(record);
        }
    }

    /// Somebody else has written since: this process must claim the record again.
    pub(crate) fn handle_refused(&mut self) {
        self.writing = false;
        self.term = None;
    }

    /// Goes on from this record, and raises floors with it.
    pub(crate) fn adopt(&mut self, record: Record) {
        for (view, node) in self.views.iter_mut().zip(&record.nodes) {
            view.raise(node.floor);
        }
        self.record = record;
    }

    /// RENEW, if the last reply gives the right to it. The process may have slept since it looked at the
    /// clock, so only the time at which that reply arrived is judged.
    pub(crate) fn renew(&mut self, rules: Rules, gateway: usize) -> Option<Request> {
        let term = self.term?;
        let heard = self.views[gateway].heard?;
        let in_term = heard.at >= term.start && self.within_term(rules, heard.at);
        if !in_term && rules.has(Clause::RenewEchoesOwnTerm) {
            return None;
        }
        let view = &mut self.views[gateway];
        view.newest_basis = view.newest_basis.max(heard.at);
        Some(Request {
            right: Right::Controller,
            incarnation: heard.incarnation,
            echo: heard.time,
            floor: if rules.has(Clause::RenewNamesFloor) {
                view.floor
            } else {
                Epoch::NONE
            },
        })
    }

    /// A reply of a gateway arrived.
    pub(crate) fn handle_reply(&mut self, gateway: usize, heard: Heard) {
        let view = &mut self.views[gateway];
        view.rebooted |= view
            .heard
            .is_some_and(|before| before.incarnation != heard.incarnation);
        view.heard = Some(heard);
    }

    /// A witness promised. Of several promises of one floor the first counts: its vote basis is oldest.
    pub(crate) fn handle_promise(
        &mut self,
        rules: Rules,
        now: Ns,
        gateway: usize,
        promise: Promise,
    ) {
        let basis = if rules.has(Clause::AgesNotTimes) {
            promise.age.map_or(0, |age| now.saturating_sub(age))
        } else {
            promise.time
        };
        let kept = &mut self.views[gateway].promises[promise.instance.host()];
        let known =
            |kept: &Promise| kept.instance == promise.instance && kept.floor >= promise.floor;
        if !kept.is_some_and(|(kept, _)| known(&kept)) {
            *kept = Some((promise, basis));
        }
    }

    /// The agent confirmed that it has applied an assignment.
    pub(crate) fn handle_confirmation(&mut self, now: Ns, gateway: usize, confirmed: (Epoch, u16)) {
        let view = &mut self.views[gateway];
        let before = view.confirmed.unwrap_or((Epoch::NONE, 0));
        if confirmed.1 > before.1 {
            view.version_at = now;
        }
        view.confirmed = Some((before.0.max(confirmed.0), before.1.max(confirmed.1)));
        view.confirmed_at = now;
    }

    /// The record with an address taken from the node that it is assigned to.
    pub(crate) fn taking(&mut self, rules: Rules, address: usize) -> Option<Record> {
        let number = self.term?.number;
        let gateway = self
            .record
            .nodes
            .iter()
            .position(|node| node.assigns(address))?;
        let mut record = self.record.clone();
        let node = &mut record.nodes[gateway];
        node.take(number, address);
        let view = &mut self.views[gateway];
        if rules.has(Clause::TakingRaisesFloor) {
            if rules.has(Clause::FloorsRecorded) {
                node.floor = node.epoch;
            } else {
                view.raise(node.epoch);
            }
        }
        let never = view
            .confirmed
            .is_none_or(|(epoch, _)| epoch < node.given[address]);
        if never && !rules.has(Clause::ToldCountsAsApplied) {
            node.free(address);
        }
        Some(record)
    }

    /// The record with a move aborted: the node from which the address was being taken keeps it.
    pub(crate) fn aborting(&self, rules: Rules, address: usize) -> Option<Record> {
        let number = self.term?.number;
        let mut record = self.record.clone();
        let placed = record.nodes.iter().position(|node| node.assigns(address));
        match placed {
            None => {
                let node = record
                    .nodes
                    .iter_mut()
                    .find(|node| node.may_hold(address))?;
                node.give(number, address);
            }
            Some(at) if !rules.has(Clause::AbortOnlyBeforeRecord) => {
                let before = (0..GATEWAYS).filter(|other| *other != at);
                let from = before.max_by_key(|other| record.nodes[*other].taken[address])?;
                record.nodes[at].take(number, address);
                record.nodes[at].free(address);
                record.nodes[from].give(number, address);
            }
            Some(_) => return None,
        }
        Some(record)
    }

    /// The record with a witness replaced, or with the first set where there is none. `None` if the rules
    /// make the change wait.
    pub(crate) fn changing_terms(
        &self,
        rules: Rules,
        gateway: usize,
        change: impl FnOnce(&mut Terms),
    ) -> Option<Record> {
        let mut record = self.record.clone();
        let node = &mut record.nodes[gateway];
        let waits =
            node.may_hold_any() && node.terms.len() > 1 && rules.has(Clause::SetChangesWait);
        if waits || node.terms.len() > 2 {
            return None;
        }
        let mut terms = *node.newest();
        change(&mut terms);
        if terms == *node.newest() {
            return None;
        }
        terms.version += 1;
        node.largest_lease = node.largest_lease.max(terms.lease_time);
        node.terms.push(terms);
        Some(record)
    }

    /// Whom to ask for a promise about a gateway: the member of any set that runs on the host.
    pub(crate) fn asked(&self, gateway: usize, host: usize) -> Option<Instance> {
        let terms = &self.record.nodes[gateway].terms;
        terms
            .iter()
            .rev()
            .flat_map(Terms::members)
            .find(|member| member.host() == host)
    }
}
