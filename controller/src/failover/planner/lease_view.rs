//! What the planner shows of leases and witnesses.

use std::sync::Arc;
use std::time::Instant;

use probe_user::settings::HumanDuration;

use super::Planner;
use super::state::{Address, Leaving, Stage};
use super::view::whole;
use crate::api;
use crate::failover::Phase;
use crate::failover::lease::Safety;
use crate::failover::witnesses::Lacking;

impl Planner {
    /// Why the owner may still use an address that it was to release.
    pub(super) fn why_unsafe(&self, now: Instant, owner: &str, address: &Address) -> String {
        let Stage::Leaving(Leaving { epoch, .. }) = address.stage else {
            return "it is on its way".to_owned();
        };
        match epoch.map(|epoch| self.leases.safety(owner, epoch)) {
            Some(Safety::At(at)) => {
                let left = at.saturating_duration_since(now).as_secs_f64();
                format!("{owner} confirms nothing, and its lease may last for {left:.1} s more")
            }
            Some(Safety::NoQuorum(Lacking { promised, of })) => format!(
                "{owner} confirms nothing, and only {promised} of its {of} witnesses have promised not to \
                 extend its lease (NoQuorum)"
            ),
            Some(Safety::Unknown) | None => {
                format!("{owner} confirms nothing, and its lease is still being extended")
            }
        }
    }

    /// How long a lease lasts, ms.
    pub(super) fn view_lease_time(&self) -> Option<u64> {
        let lease = self.leases.fencing().lease()?;
        Some(lease.as_millis().try_into().unwrap_or(u64::MAX))
    }

    /// The witnesses, in the order of their slots.
    pub(super) fn view_witnesses(&self, now: Instant) -> Vec<api::Witness> {
        let witnesses = &self.leases.witnesses;
        let members = witnesses.roster().members.iter();
        let view = members.map(|member| api::Witness {
            node: member.node.clone(),
            instance: format!("{:016x}", member.instance),
            silent_ms: witnesses
                .silence(now, &member.node)
                .as_millis()
                .try_into()
                .unwrap_or(u64::MAX),
        });
        view.collect()
    }

    /// How many addresses wait for promises of witnesses.
    pub(super) fn count_without_quorum(&self) -> usize {
        let lacks = |address: &&Address| match (&address.stage, &address.owner) {
            (Stage::Leaving(leaving), Some(owner)) if leaving.step.phase == Phase::Safe => {
                let safety = leaving.epoch.map(|epoch| self.leases.safety(owner, epoch));
                matches!(safety, Some(Safety::NoQuorum(_)))
            }
            _ => false,
        };
        self.addresses.values().filter(lacks).count()
    }

    /// Who extends a node's lease.
    pub(super) fn view_lease(&self, name: &str) -> Option<api::Lease> {
        let witnesses = &self.leases.witnesses;
        let roster = witnesses.roster();
        let set = roster.set(name).map(|member| member.node.clone());
        self.leases.is_fenced().then(|| api::Lease {
            witnesses: set.collect(),
            confirmed: witnesses.has_confirmed(name, roster.version),
            floor: self.leases.floor(name),
        })
    }

    /// Who extends a candidate's lease, and what it does as a witness.
    pub(super) fn explain_lease(&self, now: Instant, name: &str) -> Vec<String> {
        let is_candidate = |names: &std::collections::BTreeSet<Arc<str>>| names.contains(name);
        let lease = self.candidates.values().any(is_candidate);
        let lease = lease.then(|| self.view_lease(name)).flatten();
        let mut sentences: Vec<String> = lease
            .into_iter()
            .filter_map(|lease| self.sentence_of_lease(&lease))
            .collect();
        let members = &self.leases.witnesses.roster().members;
        if members.iter().any(|member| member.node == name) {
            let silent = whole(self.leases.witnesses.silence(now, name));
            sentences.push(format!(
                "It is a witness, and last answered as such {silent} ago."
            ));
        }
        sentences
    }

    fn sentence_of_lease(&self, lease: &api::Lease) -> Option<String> {
        let lasts = HumanDuration(self.leases.fencing().lease()?);
        let extended = match &lease.witnesses[..] {
            [] => "by this controller alone".to_owned(),
            [one] => format!("by this controller, and by {one}"),
            some => {
                let majority = some.len() / 2 + 1;
                let names = some.join(", ");
                format!("by this controller, and by any {majority} of its witnesses {names}")
            }
        };
        let confirmed = match lease.confirmed {
            true => "",
            false => "; it has not confirmed that yet",
        };
        Some(format!(
            "Its lease lasts {lasts} from each reply, and is extended {extended}{confirmed}."
        ))
    }
}
