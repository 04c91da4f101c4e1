//! What witnesses are told.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Agent, Witnesses};

/// What a witness is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duty {
    /// Grows with each change: the term in the upper 32 bits, a counter in the lower ones.
    pub version: u64,
    /// Which memory it must have; `None`: whichever it has, to learn it.
    pub instance: Option<u64>,
    /// The nodes for which it shall vote, and as of which applied epoch.
    pub watched: Vec<(Arc<str>, u64)>,
    /// How long a lease lasts from the reply that a vote rests on.
    pub lease: Duration,
}

impl Witnesses {
    /// Whether [`duties`](Self::duties) may have something to say even if nothing else has changed.
    pub(in crate::failover) const fn are_stale(&self) -> bool {
        self.stale
    }

    /// Who is to be told what now: whoever has another duty than it was told last. `None`: it is told
    /// nothing any more. `leased`: all nodes that are voted for, and their floors.
    pub(in crate::failover) fn duties(
        &mut self,
        now: Instant,
        term: u32,
        leased: &[(Arc<str>, u64)],
        lease: Duration,
    ) -> Vec<(Arc<str>, Option<Duty>)> {
        self.stale = false;
        let nudge = std::mem::take(&mut self.nudge);
        let members = self.rosters.iter().flat_map(|roster| &roster.members);
        let mut needed: BTreeSet<Arc<str>> = members.map(|it| Arc::from(&*it.node)).collect();
        needed.extend(self.asked.iter().cloned());
        let told = |agent: &Agent| agent.told.is_some();
        let told = self.agents.iter().filter(|(_, agent)| told(agent));
        let told: BTreeSet<Arc<str>> = told.map(|(node, _)| node.clone()).collect();
        let mut duties = Vec::new();
        for node in needed.union(&told).cloned() {
            let watched = self.watched(&node, leased);
            let agent = self.agents.entry(node.clone()).or_insert(Agent::new(now));
            let duty = Duty {
                version: u64::from(term) << 32 | u64::from(self.counter + 1),
                instance: agent.instance,
                // Whoever has another memory than it should votes for nobody.
                watched: agent.instance.map_or(Vec::new(), |_| watched),
                lease,
            };
            match &agent.told {
                Some((last, answered)) if last.is_like(&duty) && !nudge => {
                    // It knows that it has no duty any more.
                    if *answered && !needed.contains(&node) {
                        agent.told = None;
                        duties.push((node, None));
                    }
                }
                told => {
                    self.counter += 1;
                    if told.is_none() {
                        agent.heard = now;
                    }
                    agent.told = Some((duty.clone(), false));
                    duties.push((node, Some(duty)));
                }
            }
        }
        duties
    }

    /// The nodes in whose sets the agent of `node` is or may be still.
    fn watched(&self, node: &str, leased: &[(Arc<str>, u64)]) -> Vec<(Arc<str>, u64)> {
        let watches = |(watched, _): &&(Arc<str>, u64)| {
            let mut rosters = self.rosters.iter();
            rosters.any(|roster| roster.watches(node, watched))
        };
        leased.iter().filter(watches).cloned().collect()
    }
}

impl Duty {
    /// Whether only their versions differ.
    fn is_like(&self, other: &Self) -> bool {
        let Self {
            version: _,
            instance,
            watched,
            lease,
        } = self;
        (instance, watched, lease) == (&other.instance, &other.watched, &other.lease)
    }
}
