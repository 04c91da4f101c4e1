//! Who the witnesses are, and what they are told.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use probe_user::channel::WitnessReport;

use super::Planner;
use super::state::Node;
use crate::failover::witnesses::{Nominee, WitnessSettings};
use crate::failover::{Output, Roster};
use crate::health::State;

/// The label by which a node says where it is.
const ZONE: &str = "topology.kubernetes.io/zone";
/// Whom to have as witnesses where leases are the controller's alone.
const NOBODY: WitnessSettings = WitnessSettings {
    count: 0,
    patience: Duration::MAX,
};

impl Planner {
    /// Takes note of what a witness answered to its duty of this version.
    pub fn handle_testimony(
        &mut self,
        now: Instant,
        node: &str,
        version: u64,
        report: &WitnessReport,
    ) {
        let witnesses = &mut self.leases.witnesses;
        witnesses.handle_report(now, node, version, report);
    }

    /// Takes note that a witness refused its duty: another one is meant.
    pub fn handle_refused_duty(&mut self, node: &str) {
        self.leases.witnesses.handle_refusal(node);
    }

    /// The witnesses in force.
    pub fn roster(&self) -> &Roster {
        self.leases.witnesses.roster()
    }

    /// What is to be recorded of them: nothing, if there never were any.
    pub(super) fn recorded_rosters(&self) -> Vec<Roster> {
        let rosters = self.leases.witnesses.rosters();
        match self.roster().version {
            0 => Vec::new(),
            _ => rosters.to_vec(),
        }
    }

    /// Leases last for as long as they do with so many nodes as there are.
    pub(super) fn fit_leases(&mut self) {
        let present = self.nodes.values().filter(|node| node.present).count();
        let next = u64::from(self.term) << 32 | u64::from(self.counter + 1);
        if self.leases.fit(present, next) {
            self.tell_all_anew();
        }
    }

    /// Changes the witnesses if that is due; whoever has a set is told the new one.
    pub(super) fn reappoint(&mut self, now: Instant) {
        if !self.leases.is_fenced() || !self.leases.has_term() {
            return;
        }
        let owners = self.addresses.values().filter_map(|it| it.owner.as_ref());
        let witnesses = &mut self.leases.witnesses;
        if witnesses.rosters().len() > 2 {
            self.dirty |= witnesses.prune(owners.clone());
        }
        let settings = self.leases.fencing().witnesses().unwrap_or(NOBODY);
        let present = |node: &Node| node.present;
        let count = self.nodes.values().filter(|node| present(node)).count();
        let is_node = |name: &str| self.nodes.get(name).is_some_and(present);
        let witnesses = &mut self.leases.witnesses;
        if witnesses.are_settled(now, settings, count, is_node) {
            return;
        }
        let settles = |node: &Node| {
            present(node)
                && node.state == State::Unknown
                && now.saturating_duration_since(node.appeared) < self.settings.settle
        };
        // The first ones to answer need not be the best ones.
        if witnesses.roster().members.is_empty() && self.nodes.values().any(settles) {
            return;
        }
        let present = self.nodes.iter().filter(|(_, node)| present(node));
        let nominees = present.map(|(node, known)| Nominee {
            node,
            zone: known.labels.get(ZONE).map_or("", String::as_str),
            is_up: known.state == State::Available,
        });
        let nominees: Vec<Nominee<'_>> = nominees.collect();
        if witnesses.reappoint(now, settings, &nominees, owners) {
            self.tell_all_anew();
        }
    }

    /// Tells the witnesses their duties, if those have changed. Everything that has been decided is
    /// recorded.
    pub(super) fn charge(&mut self, now: Instant) {
        if !self.settings.enabled || !self.leases.has_term() {
            return;
        }
        let duties = self.leases.duties(now, self.term).into_iter();
        let output = |(node, duty)| Output::Witness { node, duty };
        self.outputs.extend(duties.map(output));
    }

    /// Whoever was told anything is given a new epoch.
    fn tell_all_anew(&mut self) {
        let told = self.nodes.iter().filter(|(_, node)| node.epoch != 0);
        let told: BTreeSet<Arc<str>> = told.map(|(name, _)| name.clone()).collect();
        self.stale.extend(told);
        self.dirty |= self.claimed;
    }
}
