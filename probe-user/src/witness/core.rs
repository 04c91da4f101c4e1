//! The core: the duty, the promises, the reports.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use probe_ebpf::wire::{NodeId, PROBE_PORT};

use super::error::DutyError;
use super::memory::Memory;
use super::questions::{Pending, QuestionId};
use super::slot::Slot;
use super::tally::{Counts, Tally};
use super::votes::Votes;
use crate::channel::{AskReport, Duty, Heard, Watched, WitnessReport};
use crate::session::{Event, ProbeSettings, Prober, Renewal, Right, TargetError, TargetId};

/// How a node is probed that somebody asks for, as long as no duty says otherwise.
const WITHOUT_DUTY: ProbeSettings = ProbeSettings {
    period: Duration::from_millis(100),
    reply_window: Duration::from_secs(1),
    port: PROBE_PORT,
};
/// Most periods for which a reply is waited for.
const LONGEST_WINDOW: u32 = 100;

/// A witness: probes the nodes of its duty all the time and votes for them, and any other node when
/// it is asked.
///
/// A vote names the floor that is stored, so that storing a higher one is the promise never to vote
/// below it again. Drive it as its [`Prober`] wants to be driven, and [`digest`](Self::digest) what
/// came of that.
pub struct Witness {
    own: NodeId,
    pub(super) memory: Option<Box<dyn Memory>>,
    votes: Votes,
    duty: Option<Duty>,
    pub(super) prober: Prober,
    /// What probers before the present one counted.
    past: Counts,
    seed: u64,
    next_id: u32,
    pub(super) slots: BTreeMap<TargetId, Slot>,
    names: HashMap<String, TargetId>,
    pub(super) questions: Vec<Pending>,
    pub(super) next_question: u64,
    pub(super) answers: VecDeque<(QuestionId, AskReport)>,
}

impl Witness {
    /// A witness on the node `own`, without a duty. `memory`: `None` on a node that cannot be one, and
    /// answers questions only. `seed` as of [`Prober::new`].
    pub fn new(now: Instant, own: NodeId, memory: Option<Box<dyn Memory>>, seed: u64) -> Self {
        let is_restarted = memory.as_ref().is_some_and(|memory| !memory.is_new());
        Self {
            own,
            memory,
            votes: Votes::new(is_restarted.then_some(now)),
            duty: None,
            prober: Prober::new(WITHOUT_DUTY, seed),
            past: Counts::default(),
            seed,
            next_id: 0,
            slots: BTreeMap::new(),
            names: HashMap::new(),
            questions: Vec::new(),
            next_question: 0,
            answers: VecDeque::new(),
        }
    }

    /// Which witness this is; `None`: the node cannot be one.
    pub fn instance(&self) -> Option<u64> {
        self.memory.as_ref().map(|memory| memory.instance())
    }

    /// The duty in force.
    pub fn duty(&self) -> Option<&Duty> {
        self.duty.as_ref()
    }

    /// Does this from now on, and nothing else. Every floor is stored when it returns. A duty that
    /// names no instance changes nothing.
    ///
    /// # Errors
    /// See [`DutyError`]. Nothing is changed, but that floors may have been stored.
    pub fn take_on(&mut self, now: Instant, duty: &Duty) -> Result<(), DutyError> {
        let instance = self.instance().ok_or(DutyError::NoMemory)?;
        let Some(meant) = duty.instance else {
            return Ok(());
        };
        if meant != instance {
            return Err(DutyError::OtherInstance { meant, instance });
        }
        let (version, present) = (duty.version, self.duty.as_ref().map_or(0, |it| it.version));
        if version < present {
            return Err(DutyError::Older { version, present });
        }
        if self.duty.as_ref() == Some(duty) {
            return Ok(());
        }
        if let Some(itself) = duty.watched.iter().find(|it| self.is_own(it.node())) {
            let node = itself.node().to_owned();
            return Err(DutyError::Itself { node });
        }
        for watched in &duty.watched {
            self.raise(watched)?;
        }
        self.duty = Some(duty.clone());
        self.pace(now, settings(duty));
        self.release(duty);
        for watched in &duty.watched {
            self.watch(now, watched);
        }
        Ok(())
    }

    /// What is known of every node of the duty.
    pub fn report(&self, now: Instant) -> Result<WitnessReport, DutyError> {
        let instance = self.instance().ok_or(DutyError::NoMemory)?;
        let duty = self.slots.values().filter(|slot| slot.is_duty);
        let heard = duty.map(|slot| self.heard(now, slot)).collect();
        Ok(WitnessReport { instance, heard })
    }

    pub(super) fn heard(&self, now: Instant, slot: &Slot) -> Heard {
        let below = self.votes.below(slot.node);
        Heard {
            floor: self.floor(slot.node),
            voted_ago: below.map(|at| now.saturating_duration_since(at)),
            ..slot.heard(now)
        }
    }

    fn floor(&self, node: NodeId) -> u64 {
        let memory = self.memory.as_ref();
        memory.map_or(0, |memory| memory.floor(node))
    }

    /// Stores a floor, and names it in every vote from then on.
    fn raise(&mut self, watched: &Watched) -> Result<(), DutyError> {
        let node = NodeId::of(watched.node());
        let Some(memory) = &mut self.memory else {
            return Err(DutyError::NoMemory);
        };
        if watched.floor <= memory.floor(node) {
            return Ok(());
        }
        let raised = memory.raise(node, watched.floor);
        raised.map_err(|source| DutyError::NotStored {
            node: watched.node().to_owned(),
            source,
        })?;
        if let Some(id) = self.find(watched.node()) {
            self.set_votes(id);
        }
        self.votes.raised(node);
        Ok(())
    }

    /// Probes at this pace, and at this port. What is known of nodes stays.
    pub(super) fn pace(&mut self, now: Instant, settings: ProbeSettings) {
        if *self.prober.settings() == settings {
            return;
        }
        for (id, slot) in &self.slots {
            self.votes
                .note(slot.node, self.prober.set_renewal(*id, None));
        }
        self.past = self.counts();
        self.seed = self.seed.wrapping_add(1);
        self.prober = Prober::new(settings, self.seed);
        let ids: Vec<_> = self.slots.keys().copied().collect();
        for id in ids {
            self.probe(now, id);
        }
    }

    /// Ends what the duty does not ask for any more, and makes way for addresses that go from one node
    /// to another, so that each node can be given its new ones in any order.
    fn release(&mut self, duty: &Duty) {
        let nodes = duty.watched.iter();
        let owners: HashMap<IpAddr, &str> = nodes
            .flat_map(|it| it.addresses.iter().map(|address| (*address, it.node())))
            .collect();
        let named: HashSet<&str> = duty.watched.iter().map(Watched::node).collect();
        let gives_way = |slot: &Slot| {
            let node = slot.watched.node();
            let other = |address| owners.get(address).is_some_and(|owner| *owner != node);
            slot.watched.addresses.iter().any(other)
        };
        let (mut ended, mut moving) = (Vec::new(), Vec::new());
        for (id, slot) in &mut self.slots {
            if slot.is_duty && !named.contains(slot.watched.node()) {
                slot.is_duty = false;
                ended.push(*id);
            }
            if gives_way(slot) {
                slot.watched.addresses.clear();
                moving.push(*id);
            }
        }
        for id in moving {
            self.stop_probing(id);
        }
        for id in ended {
            self.set_votes(id);
        }
        self.drop_unwanted();
    }

    fn watch(&mut self, now: Instant, watched: &Watched) {
        let known = self.find(watched.node());
        let is_new = known.is_none();
        let id = known.unwrap_or_else(|| self.add(Slot::new(now, watched, true)));
        let Some(slot) = self.slots.get_mut(&id) else {
            return;
        };
        if !slot.is_duty {
            (slot.is_duty, slot.since) = (true, now);
        }
        let before = std::mem::replace(&mut slot.watched, watched.clone());
        if before != *watched || slot.not_probed.is_some() || is_new {
            self.probe(now, id);
        }
        self.set_votes(id);
    }

    pub(super) fn add(&mut self, slot: Slot) -> TargetId {
        let id = TargetId(self.next_id);
        self.next_id = self.next_id.wrapping_add(1);
        self.names.insert(slot.watched.node().to_owned(), id);
        self.slots.insert(id, slot);
        id
    }

    pub(super) fn is_own(&self, node: &str) -> bool {
        NodeId::of(node) == self.own
    }

    pub(super) fn find(&self, node: &str) -> Option<TargetId> {
        self.names.get(node).copied()
    }

    /// Probes a node at its addresses, with its keys.
    pub(super) fn probe(&mut self, now: Instant, id: TargetId) {
        let Some(slot) = self.slots.get_mut(&id) else {
            return;
        };
        slot.not_probed = self.prober.insert(now, id, slot.target()).err();
        self.set_votes(id);
    }

    fn stop_probing(&mut self, id: TargetId) {
        if let Some(slot) = self.slots.get(&id) {
            self.votes
                .note(slot.node, self.prober.set_renewal(id, None));
        }
        self.prober.remove(id);
    }

    /// Has the probes to a node vote as the duty says, under the floor that is stored.
    fn set_votes(&mut self, id: TargetId) {
        let (Some(slot), Some(instance)) = (self.slots.get(&id), self.instance()) else {
            return;
        };
        let time = self.duty.as_ref().map_or(Duration::ZERO, |duty| duty.lease);
        let renewal = Renewal {
            right: Right::Witness(instance),
            floor: self.floor(slot.node),
            time,
            since: slot.since,
        };
        let votes = slot.is_duty && slot.watched.vote && !time.is_zero();
        let echoed = self.prober.set_renewal(id, votes.then_some(renewal));
        self.votes.note(slot.node, echoed);
    }

    /// Lets go of nodes that neither the duty nor a question names.
    pub(super) fn drop_unwanted(&mut self) {
        let asked = |id| self.questions.iter().any(|it| it.target == id);
        let unwanted =
            |(id, slot): (&TargetId, &Slot)| (!slot.is_duty && !asked(*id)).then_some(*id);
        let unwanted: Vec<_> = self.slots.iter().filter_map(unwanted).collect();
        for id in unwanted {
            self.stop_probing(id);
            if let Some(slot) = self.slots.remove(&id) {
                self.names.remove(slot.watched.node());
            }
        }
    }

    /// Takes note of what the prober has found out, and answers what can be answered.
    pub fn digest(&mut self, now: Instant) {
        while let Some(event) = self.prober.poll_event() {
            if let Event::Reply {
                target,
                at,
                reply,
                newest,
                ..
            } = event
                && let Some(slot) = self.slots.get_mut(&target)
            {
                slot.hear(at, &reply, newest);
            }
        }
        self.answer_questions(now);
    }

    /// The prober, to be driven.
    pub fn prober(&mut self) -> &mut Prober {
        &mut self.prober
    }

    /// When there is something to do next although nothing arrives.
    pub fn next_wake(&self) -> Option<Instant> {
        let questions = self.questions.iter().map(|it| it.deadline);
        self.prober.next_wake().into_iter().chain(questions).min()
    }

    /// Nodes of the duty that are not probed, and why.
    pub fn not_probed(&self) -> impl Iterator<Item = (&str, TargetError)> {
        let slots = self.slots.values();
        slots.filter_map(|slot| Some((slot.watched.node(), slot.not_probed?)))
    }

    /// What it does, and what came of it.
    pub fn tally(&self, now: Instant) -> Tally {
        let duty = || self.slots.values().filter(|slot| slot.is_duty);
        let lease = self.duty.as_ref().map_or(Duration::ZERO, |duty| duty.lease);
        let is_heard = |slot: &&Slot| {
            let said = slot.said.as_ref();
            said.is_some_and(|said| now.saturating_duration_since(said.at) <= lease)
        };
        Tally {
            watched: duty().count(),
            voted_for: duty().filter(|slot| slot.watched.vote).count(),
            heard: duty().filter(is_heard).count(),
            counts: self.counts(),
        }
    }

    fn counts(&self) -> Counts {
        let stats = self.prober.stats();
        Counts {
            probes: self.past.probes + stats.sent,
            votes: self.past.votes + stats.extending,
            replies: self.past.replies + stats.answered,
        }
    }
}

fn settings(duty: &Duty) -> ProbeSettings {
    let longest = duty.period * LONGEST_WINDOW;
    ProbeSettings {
        period: duty.period,
        reply_window: duty.lease.clamp(duty.period, longest),
        port: duty.port,
    }
}
