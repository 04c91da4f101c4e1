//! What to do about the node's egress IPs, and in which order: no clock, socket or task in here.
//!
//! Whoever drives an [`Applier`] shows it the node ([`Observed`]), carries out the [`Step`]s that
//! come back, in their order, and says what became of them. Removals come first, additions then,
//! and the applied epoch last: whoever reads the epoch can rely on what the set took away.

mod claim;
mod entry;
mod fence;
mod gateways;
mod held_back;
mod observed;
mod plan;
mod policy;
mod release;
mod rules;
#[cfg(test)]
mod tests;
mod votes;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Instant;

pub(super) use fence::Guards;
pub(super) use held_back::Range;
pub(super) use observed::{Link, Observed, Present};
pub(super) use policy::{PRIORITY, Policy, PolicyRoute, PolicyRule, PolicyTable, TABLES, Uplink};
pub(super) use rules::{Ruleset, Steering};

use super::handle::ApplyError;
use super::types::{AddressReport, AddressState, Desired, EgressIp};
use crate::kernel::WitnessSet;
use entry::{Entry, Held, Phase};
use gateways::Gateways;
use release::{RETRY, Release};
use votes::Votes;

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Fence these devices, and no others.
    Fence { devices: BTreeSet<u32> },
    /// Guard these addresses wherever there is a fence, and no others.
    Guard(Guards),
    /// Put these rules into force, and no others.
    Rules(Ruleset),
    /// Take an address of ours off an interface.
    Remove { address: IpAddr, link: u32 },
    /// Delete the conntrack entries of an address that is gone: established flows would go on
    /// leaving from it, whatever rules there are.
    Flush { address: IpAddr },
    /// Put this witness set into force, and no other.
    Witnesses(WitnessSet),
    /// Ask the link who has an address.
    Probe { address: IpAddr, link: u32 },
    /// Put an address on an interface.
    Add { address: IpAddr, link: u32 },
    /// Tell the link that an address is here.
    Announce { address: IpAddr, link: u32 },
    /// The set of this epoch is in force.
    Applied { epoch: u64 },
}

/// The egress IPs that the node shall hold, and how far it has come.
#[derive(Debug)]
pub(super) struct Applier {
    interface: Option<String>,
    epoch: u64,
    applied: u64,
    /// Whether the set of `epoch` is known. An agent that was restarted without its record keeps
    /// what it finds until it is told.
    is_known: bool,
    entries: BTreeMap<IpAddr, Entry>,
    releases: BTreeMap<IpAddr, Release>,
    gateways: Gateways,
    /// Whose votes extend the node's lease.
    votes: Votes,
    /// Whether the node uses its egress IPs under a lease.
    is_fenced: bool,
    /// The devices with a fence; `None`: not known.
    devices: Option<BTreeSet<u32>>,
    /// The guards in force; `None`: not known.
    guards: Option<Guards>,
    /// When a fence that could not be put into force is tried again.
    fence_again: Option<Instant>,
    /// Ethernet addresses of the node itself: where `arp_ignore` is not set, its other interfaces
    /// answer for its egress IPs, and are nobody else.
    own_macs: BTreeSet<[u8; 6]>,
    /// The rules in force; `None`: not known.
    rules: Option<Ruleset>,
    /// When rules that could not be put into force are tried again.
    rules_again: Option<Instant>,
}

impl Applier {
    /// Nothing is desired yet, and `applied` and `witness_version` are in force. `interface` is where addresses belong
    /// that do not say it themselves; `None`: where their subnet is.
    pub(super) fn new(interface: Option<String>, applied: u64, witness_version: u64) -> Self {
        Self {
            interface,
            epoch: applied,
            applied,
            is_known: applied == 0,
            entries: BTreeMap::new(),
            releases: BTreeMap::new(),
            gateways: Gateways::default(),
            votes: Votes::new(witness_version),
            is_fenced: false,
            devices: None,
            guards: None,
            fence_again: None,
            own_macs: BTreeSet::new(),
            rules: None,
            rules_again: None,
        }
    }

    /// Whether `desired` is news: egress IPs of an epoch and witnesses of a version that are known
    /// already are none.
    ///
    /// # Errors
    /// The epoch is older than that of the last set, or it is the same and the witnesses are older.
    pub(super) fn is_news(&self, desired: &Desired) -> Result<bool, ApplyError> {
        if desired.epoch < self.epoch {
            return Err(ApplyError::OlderEpoch {
                epoch: desired.epoch,
                applied: self.epoch,
            });
        }
        if desired.epoch > self.epoch {
            return Ok(true);
        }
        let has_other_witnesses = self.votes.is_news(desired.witnesses.as_ref())?;
        Ok(has_other_witnesses || !self.is_known)
    }

    /// The node shall hold exactly this, whatever it was told before.
    pub(super) fn desire(&mut self, now: Instant, desired: &Desired) {
        self.epoch = desired.epoch;
        self.is_known = true;
        self.is_fenced = desired.lease_ms != 0;
        self.votes.desire(desired.witnesses.as_ref());
        let mut before = std::mem::take(&mut self.entries);
        let held = before.values().map(|entry| &*entry.egress_ip.gateway);
        self.gateways
            .replace(now, held.collect(), &desired.gateways);
        for egress_ip in &desired.addresses {
            self.releases.remove(&egress_ip.address);
            let known = before.remove(&egress_ip.address);
            let mut phase = known.map_or(Phase::Absent, |entry| entry.phase);
            if let Phase::Held(held) = &mut phase {
                held.told();
            }
            let entry = Entry {
                egress_ip: egress_ip.clone(),
                phase,
            };
            self.entries.insert(egress_ip.address, entry);
        }
        for address in before.into_keys() {
            self.release(address);
        }
    }

    fn release(&mut self, address: IpAddr) {
        self.releases.entry(address).or_insert(Release {
            stuck: false,
            error: None,
            again: None,
        });
    }

    /// A step was carried out.
    pub(super) fn done(&mut self, now: Instant, step: &Step, observed: &Observed) {
        match step {
            Step::Fence { devices } => {
                (self.devices, self.fence_again) = (Some(devices.clone()), None);
            }
            Step::Guard(guards) => {
                (self.guards, self.fence_again) = (Some(guards.clone()), None);
            }
            Step::Rules(rules) => {
                (self.rules, self.rules_again) = (Some(rules.clone()), None);
            }
            Step::Add { address, link } => {
                if let (Some(entry), Some(link)) =
                    (self.entries.get_mut(address), observed.link(*link))
                {
                    entry.phase = Phase::Held(Held::new(now, link));
                }
            }
            Step::Flush { address } => {
                // Removals before it went well, or it would not have come this far.
                self.releases.remove(address);
            }
            Step::Witnesses(set) => self.votes.done(set),
            Step::Applied { epoch } => self.applied = *epoch,
            Step::Remove { .. } | Step::Probe { .. } | Step::Announce { .. } => {}
        }
    }

    /// A step failed. Those behind it are still carried out, save the flush of an address that is
    /// still there ([`Self::is_void`]) and the epoch.
    pub(super) fn failed(&mut self, now: Instant, step: &Step, error: String) {
        match step {
            Step::Fence { .. } | Step::Guard(_) | Step::Rules(_) => {
                match step {
                    Step::Rules(_) => (self.rules, self.rules_again) = (None, Some(now + RETRY)),
                    Step::Fence { .. } => {
                        (self.devices, self.fence_again) = (None, Some(now + RETRY));
                    }
                    _ => (self.guards, self.fence_again) = (None, Some(now + RETRY)),
                }
                for entry in self.entries.values_mut().filter(|entry| entry.is_open()) {
                    entry.phase = Phase::failed(now, error.clone());
                }
                for release in self.releases.values_mut() {
                    *release = Release::failed(now, error.clone());
                }
            }
            Step::Add { address, .. } => {
                if let Some(entry) = self.entries.get_mut(address) {
                    entry.phase = Phase::failed(now, error);
                }
            }
            Step::Announce { address, .. } | Step::Probe { address, .. } => {
                if let Some(entry) = self.entries.get_mut(address) {
                    entry.not_sent(now, error);
                }
            }
            Step::Remove { address, .. } | Step::Flush { address } => {
                if let Some(release) = self.releases.get_mut(address) {
                    *release = Release::failed(now, error);
                }
            }
            Step::Witnesses(_) => self.votes.failed(now),
            Step::Applied { .. } => {}
        }
    }

    /// Whether a step makes no sense any more, since one before it failed.
    pub(super) fn is_void(&self, step: &Step) -> bool {
        match step {
            Step::Flush { address } => {
                let release = self.releases.get(address);
                release.is_some_and(|release| release.stuck)
            }
            // Without rules the node's stack would reset the connections that the address brings.
            // Without guards whoever has the address now would have a rival; and what is said to be
            // applied is guarded.
            Step::Add { .. } | Step::Applied { .. } => {
                self.rules.is_none() || self.guards.is_none() || self.devices.is_none()
            }
            _ => false,
        }
    }

    /// Rules that nobody but us may change have been changed: put them into force again.
    pub(super) fn forget_rules(&mut self) {
        self.rules = None;
    }

    /// Whether the node uses its egress IPs under a lease.
    pub(super) const fn is_fenced(&self) -> bool {
        self.is_fenced
    }

    /// Others may have come before the fence, or devices may have: see to it again.
    pub(super) fn forget_fence(&mut self) {
        self.devices = self.devices.take().filter(|_| !self.is_fenced);
    }

    /// Somebody else claims an address, or only asks for it (`probing`), as one does before
    /// claiming it.
    pub(super) fn conflict(&mut self, now: Instant, address: IpAddr, mac: [u8; 6], probing: bool) {
        if self.own_macs.contains(&mac) {
            return;
        }
        if let Some(entry) = self.entries.get_mut(&address) {
            entry.conflict(now, mac, probing);
        }
    }

    /// Whether the last set has taken effect, as far as it can.
    pub(super) fn is_settled(&self) -> bool {
        self.releases.is_empty() && !self.entries.values().any(Entry::is_open)
    }

    /// Whether everything of the last set has been tried: what is left waits for something.
    pub(super) fn is_tried(&self) -> bool {
        let tried = |release: &Release| release.error.is_some();
        self.releases.values().all(tried)
            && !self.entries.values().any(Entry::is_open)
            && self.votes.is_tried()
    }

    /// When to plan again although nothing has changed.
    pub(super) fn next_wake(&self, now: Instant) -> Option<Instant> {
        let entries = self
            .entries
            .values()
            .filter_map(|entry| entry.next_wake(now));
        let releases = self.releases.values().map(|it| it.again.unwrap_or(now));
        let rules = self.rules_again.into_iter().chain(self.fence_again);
        let rules = rules.chain(self.votes.next_wake());
        let rules = rules.chain(self.gateways.next_wake(now));
        entries.chain(releases).chain(rules).min()
    }

    /// What the node holds whose traffic leaves by an interface, and which one that is.
    pub(super) fn steered(&self) -> impl Iterator<Item = (&EgressIp, u32)> {
        self.entries
            .values()
            .filter_map(|entry| match &entry.phase {
                Phase::Held(held)
                    if !entry.egress_ip.routed && !entry.egress_ip.sources.is_empty() =>
                {
                    Some((&entry.egress_ip, held.link))
                }
                _ => None,
            })
    }

    /// The rules that are in force, as far as is known.
    pub(super) fn rules(&self) -> Option<&Ruleset> {
        self.rules.as_ref()
    }

    /// The epoch that is in force.
    pub(super) fn applied_epoch(&self) -> u64 {
        self.applied
    }

    /// Version of the witness set that is in force.
    pub(super) const fn witness_version(&self) -> u64 {
        self.votes.version()
    }

    /// Every desired egress IP.
    pub(super) fn desired(&self) -> impl Iterator<Item = &EgressIp> {
        self.entries.values().map(|entry| &entry.egress_ip)
    }

    /// Every address that is desired or could not be got rid of.
    pub(super) fn reports(&self) -> Vec<AddressReport> {
        let desired = self.entries.iter().map(|(&address, entry)| AddressReport {
            address,
            state: entry.state(),
        });
        let releases = self.releases.iter().filter_map(|(&address, release)| {
            let error = format!("cannot be released: {}", release.error.as_ref()?);
            let state = AddressState::Failed { error };
            Some(AddressReport { address, state })
        });
        desired.chain(releases).collect()
    }

    /// Interfaces on which conflicts matter, with the addresses there.
    pub(super) fn watched(&self, observed: &Observed) -> BTreeMap<u32, Vec<IpAddr>> {
        let mut watched: BTreeMap<u32, Vec<IpAddr>> = BTreeMap::new();
        for entry in self.entries.values() {
            let place = observed.place_for(&entry.egress_ip, self.interface.as_deref());
            if let Some(link) = place
                .ok()
                .filter(|link| link.mac.is_some() && !link.loopback)
            {
                watched
                    .entry(link.index)
                    .or_default()
                    .push(entry.egress_ip.address);
            }
        }
        watched
    }
}
