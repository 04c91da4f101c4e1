//! Which steps come next.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Instant;

use super::claim::claim;
use super::entry::Phase;
use super::{Applier, Observed, Present, Ruleset, Step, fence};

impl Applier {
    /// What to do now, in this order. What has been handed out counts as begun: say of every step
    /// what became of it.
    pub(in crate::egress) fn plan(&mut self, now: Instant, observed: &Observed) -> Vec<Step> {
        self.own_macs = observed.links.iter().filter_map(|link| link.mac).collect();
        if !self.is_known {
            return Vec::new();
        }
        for stray in observed.addresses.iter().filter(|present| present.ours) {
            if !self.entries.contains_key(&stray.address) {
                self.release(stray.address);
            }
        }
        let mut claims = Vec::new();
        let mut moves = Vec::new();
        let interface = self.interface.clone();
        for entry in self.entries.values_mut() {
            let place = observed.place_for(&entry.egress_ip, interface.as_deref());
            match place {
                Ok(link) => claim(now, entry, link, observed, &mut claims, &mut moves),
                Err(reason) => entry.phase = entry.phase.waiting(reason),
            }
        }
        let mut steps = Vec::new();
        self.plan_fence(now, observed, &mut steps);
        self.plan_rules(now, observed, &claims, &mut steps);
        steps.extend(moves);
        self.plan_releases(now, observed, &mut steps);
        steps.extend(self.votes.plan(now).map(Step::Witnesses));
        steps.extend(claims);
        self.plan_messages(now, &mut steps);
        let is_guarded = self.devices.is_some() && self.guards.is_some();
        if self.applied != self.epoch && self.rules.is_some() && is_guarded && self.is_settled() {
            steps.push(Step::Applied { epoch: self.epoch });
        }
        steps
    }

    /// The fence comes before all that it guards. An address that leaves is shut first, and one that
    /// comes is guarded before it is there.
    fn plan_fence(&mut self, now: Instant, observed: &Observed, steps: &mut Vec<Step>) {
        if self.fence_again.is_some_and(|again| now < again) {
            return;
        }
        let gateways = || self.gateways.all(now).filter(|_| self.is_fenced);
        let devices = match self.is_fenced {
            true => fence::devices(observed, gateways(), self.interface.as_deref()),
            false => BTreeSet::new(),
        };
        let own = self.entries.keys().copied().filter(|_| self.is_fenced);
        // Also if the node knows of no lease yet: what an earlier life left here may be another's.
        let leaving = self.releases.keys().copied();
        let guards = fence::guards(own, leaving, gateways());
        // Guards first: what is behind a fence that has just come is guarded at once.
        if self.guards.as_ref() != Some(&guards) {
            steps.push(Step::Guard(guards));
        }
        if self.devices.as_ref() != Some(&devices) {
            steps.push(Step::Fence { devices });
        }
    }

    /// Rules come before everything else: nothing new leaves from an address that goes, and the
    /// node's own stack does not see a connection before its address is guarded.
    fn plan_rules(
        &mut self,
        now: Instant,
        observed: &Observed,
        claims: &[Step],
        steps: &mut Vec<Step>,
    ) {
        if self.rules_again.is_some_and(|again| now < again) {
            return;
        }
        let claimed = |address: IpAddr| {
            claims.iter().find_map(|step| match step {
                Step::Add { address: it, link } if *it == address => Some(*link),
                _ => None,
            })
        };
        let held = self.entries.values().filter_map(|entry| {
            let link = match &entry.phase {
                Phase::Held(held) => held.link,
                _ => claimed(entry.egress_ip.address)?,
            };
            let link = observed.link(link)?;
            let out = (!link.loopback).then_some(link.name.as_str());
            Some((&entry.egress_ip, out))
        });
        let leaving = self.releases.keys().copied();
        let present =
            leaving.filter(|address| observed.addresses.iter().any(|it| it.address == *address));
        let mut rules = Ruleset::new(held, present);
        let interface = self.interface.as_deref();
        let gateways = self.gateways.all(now);
        rules.hold_back(gateways.map(|it| (&*it.sources, observed.exits(it, interface))));
        if self.rules.as_ref() != Some(&rules) {
            steps.push(Step::Rules(rules));
        }
    }

    fn plan_releases(&mut self, now: Instant, observed: &Observed, steps: &mut Vec<Step>) {
        let is_foreign = |address: &IpAddr| {
            let mut present = observed.addresses.iter();
            present.any(|it| it.address == *address && !it.ours)
        };
        // It was never claimed, and its flows are somebody else's.
        self.releases.retain(|address, _| !is_foreign(address));
        for (&address, release) in &mut self.releases {
            if release.again.is_some_and(|again| now < again) {
                continue;
            }
            release.stuck = false;
            let ours = |present: &&Present| present.ours && present.address == address;
            for present in observed.addresses.iter().filter(ours) {
                let link = present.link;
                steps.push(Step::Remove { address, link });
            }
            steps.push(Step::Flush { address });
        }
    }

    fn plan_messages(&mut self, now: Instant, steps: &mut Vec<Step>) {
        for (&address, entry) in &mut self.entries {
            let link = match &entry.phase {
                Phase::Held(held) => held.link,
                _ => continue,
            };
            let wanted = entry.wanted(now);
            if wanted.announce {
                steps.push(Step::Announce { address, link });
            }
            if wanted.probe {
                steps.push(Step::Probe { address, link });
            }
        }
    }
}
