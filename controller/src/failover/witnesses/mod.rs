//! The witnesses: who they are, which of their sets each node may have applied, what each of them is
//! told, and what it has promised.
//!
//! Every change of the witnesses makes a new [`Roster`]. It is recorded before anyone is told, and
//! nobody's next set is made before every node that holds an address has confirmed the last one.
//! What a node was told and has not confirmed counts as applied, and so does what it had before.

mod choice;
mod duties;
mod hearsay;
mod promises;
mod roster;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use probe_user::channel::WitnessReport;

pub(super) use self::choice::FEWEST_NODES;
use self::choice::{Candidate, Standing, choose, full_size};
pub use self::duties::Duty;
use self::hearsay::Hearsay;
pub(super) use self::promises::Lacking;
use self::promises::{Promise, Promises};
pub use self::roster::{Member, Roster};

/// Whom to have as witnesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WitnessSettings {
    /// How many each node shall have; odd.
    pub count: usize,
    /// One that has not answered for so long is replaced.
    pub patience: Duration,
}

/// Who does not answer for so long, although it is told something, is not chosen. Everyone who is told
/// anything is told again more often than that.
const SOON: Duration = Duration::from_secs(10);

/// A node that may become a witness.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nominee<'a> {
    pub(super) node: &'a Arc<str>,
    /// Where it is; unknown places are all one zone.
    pub(super) zone: &'a str,
    /// Whether its agent is up.
    pub(super) is_up: bool,
}

/// All that is known of them.
#[derive(Debug)]
pub(super) struct Witnesses {
    /// Those that an address-holding node may have applied, oldest first; the last one is in force.
    rosters: Vec<Roster>,
    /// The version that each node has confirmed, as far as it has said so to this controller.
    confirmed: BTreeMap<Arc<str>, u64>,
    agents: BTreeMap<Arc<str>, Agent>,
    /// Those who are to say which memory they have, so that they may become witnesses.
    asked: BTreeSet<Arc<str>>,
    promises: Promises,
    hearsay: Hearsay,
    /// The last duty given in this term, without the term.
    counter: u32,
    /// Somebody may have to be told something else.
    stale: bool,
    /// Everyone is to answer again, whether or not there is anything new to tell.
    nudge: bool,
}

/// What is known of an agent as a witness.
#[derive(Debug)]
struct Agent {
    /// Which memory it has.
    instance: Option<u64>,
    /// When it last answered, or was first told anything.
    heard: Instant,
    /// What it was told last, and whether it has answered that.
    told: Option<(Duty, bool)>,
}

impl Agent {
    const fn new(now: Instant) -> Self {
        Self {
            instance: None,
            heard: now,
            told: None,
        }
    }
}

impl Default for Witnesses {
    fn default() -> Self {
        Self {
            rosters: vec![Roster::default()],
            confirmed: BTreeMap::new(),
            agents: BTreeMap::new(),
            asked: BTreeSet::new(),
            promises: Promises::default(),
            hearsay: Hearsay::default(),
            counter: 0,
            stale: true,
            nudge: false,
        }
    }
}

impl Witnesses {
    /// Those that an earlier controller recorded.
    pub(super) fn restored(now: Instant, rosters: &[Roster]) -> Self {
        let mut witnesses = Self::default();
        if !rosters.is_empty() {
            witnesses.rosters = rosters.to_vec();
        }
        for member in rosters.iter().flat_map(|roster| &roster.members) {
            let node = Arc::from(member.node.as_str());
            let agent = witnesses.agents.entry(node);
            agent.or_insert(Agent::new(now)).instance = Some(member.instance);
        }
        witnesses
    }

    /// What is to be recorded.
    pub(super) fn rosters(&self) -> &[Roster] {
        &self.rosters
    }

    /// The one in force.
    pub(super) fn roster(&self) -> &Roster {
        // There always is one.
        self.rosters.last().unwrap_or(&EMPTY)
    }

    /// A node has applied its set of this version.
    pub(super) fn confirm(&mut self, node: &Arc<str>, version: u64) {
        let confirmed = self.confirmed.entry(node.clone()).or_default();
        *confirmed = version.max(*confirmed);
    }

    /// How long the agent of `node` has not answered as a witness.
    pub(super) fn silence(&self, now: Instant, node: &str) -> Duration {
        let agent = self.agents.get(node);
        agent.map_or(Duration::ZERO, |it| now.saturating_duration_since(it.heard))
    }

    /// Whether a node has said that its set is of this version, or a later one.
    pub(super) fn has_confirmed(&self, node: &str, version: u64) -> bool {
        version == 0 || self.confirmed.get(node).is_some_and(|it| *it >= version)
    }

    /// Whether a node may be given an address: of its sets, two at most may be in force there.
    pub(super) fn may_hold(&self, node: &str) -> bool {
        let before = self.rosters.iter().rev().nth(1);
        self.has_confirmed(node, before.map_or(0, |roster| roster.version))
    }

    /// Forgets sets that no node of `holders`, which are all that hold an address, can have applied
    /// any more; whether there were any.
    pub(super) fn prune<'a>(&mut self, holders: impl Iterator<Item = &'a Arc<str>>) -> bool {
        let confirmed = |node: &Arc<str>| self.confirmed.get(node).copied().unwrap_or_default();
        let oldest = holders.map(confirmed).min();
        let count = self.rosters.len();
        self.stale = true;
        let needless = |roster: &&Roster| oldest.is_none_or(|oldest| roster.version < oldest);
        let needless = self.rosters.iter().take_while(needless).count();
        self.rosters.drain(..needless.min(count.saturating_sub(2)));
        self.rosters.len() < count
    }

    /// Whether the roster is as it should be with so many nodes: cheaper than
    /// [`reappoint`](Self::reappoint), and no reason for that.
    pub(super) fn are_settled(
        &self,
        now: Instant,
        settings: WitnessSettings,
        nodes: usize,
        is_node: impl Fn(&str) -> bool,
    ) -> bool {
        let is_well = |member: &Member| {
            let agent = self.agents.get(&*member.node);
            let silent = |agent: &Agent| now.saturating_duration_since(agent.heard);
            let is_same = |agent: &Agent| agent.instance.is_none_or(|it| it == member.instance);
            let answers = |agent: &Agent| is_same(agent) && silent(agent) < settings.patience;
            is_node(&member.node) && agent.is_none_or(answers)
        };
        let members = &self.roster().members;
        members.len() == full_size(settings.count, nodes) && members.iter().all(is_well)
    }

    /// Makes the next roster, if there is reason to and every one of `holders` has confirmed the
    /// last one; whether it did. `nominees` are all nodes; each shall have `settings.count`.
    pub(super) fn reappoint<'a>(
        &mut self,
        now: Instant,
        settings: WitnessSettings,
        nominees: &[Nominee<'_>],
        mut holders: impl Iterator<Item = &'a Arc<str>>,
    ) -> bool {
        let version = self.roster().version;
        if !holders.all(|node| self.has_confirmed(node, version)) {
            return false;
        }
        let Some(members) = self.next_members(now, settings, nominees) else {
            return false;
        };
        let next = self.roster().succeeded_by(members);
        self.rosters.push(next);
        self.stale = true;
        true
    }

    /// `None`: they stay, or it is not known yet who they would be.
    fn next_members(
        &mut self,
        now: Instant,
        settings: WitnessSettings,
        nominees: &[Nominee<'_>],
    ) -> Option<Vec<Member>> {
        let current = &self.roster().members;
        if let Some(renewed) = self.with_new_memory(current) {
            return Some(renewed);
        }
        let names: Vec<&str> = current.iter().map(|member| &*member.node).collect();
        let candidates = nominees.iter().map(|nominee| Candidate {
            node: nominee.node,
            zone: nominee.zone,
            standing: self.standing(now, settings, nominee, names.contains(&&**nominee.node)),
        });
        let candidates: Vec<Candidate<'_>> = candidates.collect();
        let chosen = choose(&names, &candidates, settings.count);
        if chosen == names {
            self.ask(BTreeSet::new());
            return None;
        }
        let member = |node: &&str| {
            let instance = self.agents.get(*node)?.instance?;
            let node = (*node).to_owned();
            Some(Member { node, instance })
        };
        let members: Option<Vec<Member>> = chosen.iter().map(member).collect();
        let unknown = |node: &&str| {
            self.agents
                .get(*node)
                .is_none_or(|it| it.instance.is_none())
        };
        let asked = chosen.into_iter().filter(unknown).map(Arc::from).collect();
        self.ask(asked);
        members
    }

    fn ask(&mut self, nodes: BTreeSet<Arc<str>>) {
        self.stale |= self.asked != nodes;
        self.asked = nodes;
    }

    /// The members, if one of them has lost its memory and got another: first one, then the next.
    fn with_new_memory(&self, members: &[Member]) -> Option<Vec<Member>> {
        let instance = |member: &Member| self.agents.get(&*member.node)?.instance;
        let is_other = |it: &Member| instance(it).is_some_and(|other| other != it.instance);
        let index = members.iter().position(is_other)?;
        let mut members = members.to_vec();
        members[index].instance = instance(&members[index])?;
        Some(members)
    }

    fn standing(
        &self,
        now: Instant,
        settings: WitnessSettings,
        nominee: &Nominee<'_>,
        is_member: bool,
    ) -> Standing {
        let agent = self.agents.get(nominee.node);
        let silent = |agent: &Agent| now.saturating_duration_since(agent.heard);
        let is_mute = |agent: &Agent| agent.told.is_some() && silent(agent) >= SOON;
        match is_member {
            true if agent.is_some_and(|agent| silent(agent) >= settings.patience) => Standing::Gone,
            false if nominee.is_up && !agent.is_some_and(is_mute) => Standing::Fit,
            true | false => Standing::Doubtful,
        }
    }

    /// When [`reappoint`](Self::reappoint) may find somebody gone, if nothing happens until then.
    pub(super) fn next_wake(&self, settings: WitnessSettings) -> Option<Instant> {
        let members = self.roster().members.iter();
        let members = members.filter_map(|member| self.agents.get(&*member.node));
        let gone = members.map(|agent| agent.heard + settings.patience);
        let asked = self.asked.iter().filter_map(|node| self.agents.get(node));
        gone.chain(asked.map(|agent| agent.heard + SOON)).min()
    }

    /// As of when nobody votes for `node` any more below `floor`, see [`Promises::basis`].
    pub(super) fn basis(&self, node: &str, floor: u64) -> Result<Option<Instant>, Lacking> {
        let confirmed = self.confirmed.get(node).copied().unwrap_or_default();
        let applied = |roster: &&Roster| roster.version >= confirmed;
        let rosters = self.rosters.iter().filter(applied);
        self.promises.basis(node, floor, rosters)
    }

    /// The witness on `node` answered its duty of this version.
    pub(super) fn handle_report(
        &mut self,
        now: Instant,
        node: &str,
        version: u64,
        report: &WitnessReport,
    ) {
        let Some(agent) = self.agents.get_mut(node) else {
            return;
        };
        agent.heard = now;
        self.hearsay.note(now, report);
        self.stale |= agent.instance.replace(report.instance) != Some(report.instance);
        if let Some((duty, answered)) = &mut agent.told
            && duty.version == version
        {
            self.stale |= !std::mem::replace(answered, true);
        }
        for heard in report.heard.iter().filter(|heard| heard.floor != 0) {
            // The answer took its time: the reply came no later than that.
            let basis = heard
                .voted_ago
                .map(|ago| now.checked_sub(ago).unwrap_or(now));
            let promise = Promise {
                floor: heard.floor,
                basis,
            };
            self.promises.note(&heard.node, report.instance, promise);
        }
    }

    /// A witness refused its duty: it has another memory than it should.
    pub(super) fn handle_refusal(&mut self, node: &str) {
        if let Some(agent) = self.agents.get_mut(node) {
            agent.instance = None;
            self.stale = true;
        }
    }

    /// Has the witnesses say which nodes they hear, or does not ask them any more.
    pub(super) fn listen(&mut self, wanted: bool) {
        self.hearsay.want(wanted);
        (self.stale, self.nudge) = (true, wanted);
    }

    /// Whether most of a node's witnesses have said after `since` that they have not heard it for
    /// `silence`.
    pub(super) fn miss(&self, node: &str, since: Instant, silence: Duration) -> bool {
        let set = self.roster().set(node);
        self.hearsay.confirms(node, since, silence, set)
    }

    /// Forgets nodes that nobody knows any more.
    pub(super) fn retain(&mut self, known: impl Fn(&str) -> bool) {
        self.confirmed.retain(|node, _| known(node));
        self.promises.retain(known);
    }
}

/// Before there are any.
static EMPTY: Roster = Roster {
    version: 0,
    members: Vec::new(),
};

#[cfg(test)]
mod tests;
