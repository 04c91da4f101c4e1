//! What the task does in each round: looks at the node, and carries out what the [`Applier`](super::super::apply::Applier) plans.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Instant;

use tokio::task::spawn_blocking;
use tracing::{debug, info, warn};

use super::super::apply::{Observed, Policy, Step};
use super::super::in_words;
use super::super::net::{NetError, conntrack, links, nft, policy, sysctl};
use super::super::record::RecordError;
use super::{Egress, write};

/// Rounds of one pass. Each one brings a claim further; more than this means that somebody undoes
/// what we do.
const MAX_ROUNDS: usize = 8;

impl Egress {
    /// Does whatever can be done now.
    pub(super) async fn work(&mut self) {
        for _ in 0..MAX_ROUNDS {
            match self.round().await {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.problems = vec![in_words(&error)];
                    break;
                }
            }
        }
        if std::mem::take(&mut self.policy_is_due)
            && let Err(error) = self.steer().await
        {
            self.policy = None;
            self.policy_problems = vec![in_words(&error)];
        }
        self.publish();
        if self.applier.is_tried() {
            let status = self.status.borrow().clone();
            for reply in self.waiting.drain(..) {
                // Whoever asked may have gone.
                drop(reply.send(Ok(status.clone())));
            }
        }
    }

    /// Sees to it that traffic leaves by the interface that has its egress IP.
    async fn steer(&mut self) -> Result<(), NetError> {
        let is_steered = self.applier.steered().next().is_some();
        if !is_steered
            && self
                .policy
                .as_ref()
                .is_some_and(|it| *it == Policy::default())
        {
            return Ok(());
        }
        let uplinks = if is_steered {
            let links = self.applier.steered().map(|(_, link)| link).collect();
            policy::uplinks(&self.route, &links).await?
        } else {
            Vec::new()
        };
        let (wanted, problems) = Policy::new(self.applier.steered(), &uplinks);
        self.policy_problems = problems;
        // Also if nothing is new: routes go with the link that was down for a while.
        policy::replace(&self.route, &wanted).await?;
        self.policy = Some(wanted);
        Ok(())
    }

    /// Whether there was anything to do.
    async fn round(&mut self) -> Result<bool, NetError> {
        let observed = links::observe(&self.route, &self.record.added).await?;
        self.prepare(&observed).await?;
        let steps = self.applier.plan(Instant::now(), &observed);
        for step in &steps {
            if self.applier.is_void(step) {
                continue;
            }
            match self.carry_out(step, observed.tells_origin).await {
                Ok(()) => self.applier.done(Instant::now(), step, &observed),
                Err(error) => {
                    let error = in_words(error.as_ref());
                    warn!(?step, error, "cannot change the node's egress IPs");
                    self.counters.failures += 1;
                    self.applier.failed(Instant::now(), step, error);
                }
            }
        }
        Ok(!steps.is_empty())
    }

    /// Listens where it matters, and sees to the sysctls.
    async fn prepare(&mut self, observed: &Observed) -> Result<(), NetError> {
        let watched = self.applier.watched(observed);
        let links: BTreeMap<_, _> = watched
            .into_iter()
            .filter_map(|(link, addresses)| {
                let mac = observed.link(link)?.mac?;
                Some((link, (mac, addresses)))
            })
            .collect();
        let mut needs = Vec::new();
        for (&link, (_, addresses)) in &links {
            if let Some(link) = observed.link(link)
                && addresses.iter().any(|address| address.is_ipv4())
            {
                needs.extend(sysctl::for_ipv4(&link.name));
            }
        }
        let steers = |ipv4: bool| {
            let mut desired = self.applier.desired();
            desired.any(|it| it.address.is_ipv4() == ipv4 && !it.sources.is_empty())
        };
        needs.extend(sysctl::for_forwarding(steers(true), steers(false)));
        let before = self.record.sysctls.clone();
        self.problems = sysctl::meet(&needs, self.options.set_sysctls, &mut self.record.sysctls);
        if needs.is_empty() {
            sysctl::restore(&mut self.record.sysctls)?;
        }
        if self.record.sysctls != before
            && let Err(error) = self.write_record().await
        {
            self.problems.push(in_words(&error));
        }
        self.wire.watch(&links)
    }

    /// `tells_origin`: whether the kernel remembers that an address is ours.
    async fn carry_out(
        &mut self,
        step: &Step,
        tells_origin: bool,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        match step.clone() {
            Step::Guard(guards) => {
                self.fencing.guard(&guards)?;
                debug!(addresses = guards.len(), "guarded egress IPs");
            }
            Step::Fence { devices } => self.not_fenced = self.fencing.fence(devices).await?,
            Step::Rules(rules) => {
                let is_empty = rules.is_empty();
                match spawn_blocking(move || nft::replace(&rules)).await? {
                    // A kernel without nf_tables has no table of ours to be rid of.
                    Err(error) if is_empty => debug!(error = in_words(&error), "no packet filter"),
                    other => other?,
                }
            }
            Step::Remove { address, link } => {
                links::remove(&self.route, address, link).await?;
                self.record.added.remove(&address);
                self.counters.removed += 1;
                info!(%address, link, "released an egress IP");
            }
            Step::Flush { address } => {
                let flushed = spawn_blocking(move || conntrack::flush(address)).await??;
                self.counters.flushed += flushed;
                debug!(%address, flushed, "deleted conntrack entries");
            }
            Step::Witnesses(set) => {
                let version = set.version;
                self.assignment.set_witnesses(set).await?;
                debug!(version, "the witness set is in force");
            }
            Step::Probe { address, link } => self.wire.probe(link, address)?,
            Step::Add { address, link } => {
                if self.record.added.insert(address) && !tells_origin {
                    self.write_record().await?;
                }
                links::add(&self.route, address, link).await?;
                self.counters.added += 1;
                self.policy_is_due = true;
                info!(%address, link, "claimed an egress IP");
            }
            Step::Announce { address, link } => {
                self.wire.announce(link, address)?;
                self.counters.announcements += 1;
            }
            Step::Applied { epoch } => {
                self.write_record().await?;
                self.assignment.set_applied_epoch(epoch)?;
                info!(epoch, "the set of egress IPs is in force");
            }
        }
        Ok(())
    }

    /// Somebody may have flushed the packet filter.
    pub(super) async fn check_rules(&mut self) {
        let Some(rules) = self
            .applier
            .rules()
            .filter(|rules| !rules.is_empty())
            .cloned()
        else {
            return;
        };
        match spawn_blocking(move || nft::is_in_force(&rules)).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => {
                warn!("the table inet pulsepath has been changed: writing it again");
                self.applier.forget_rules();
                self.work().await;
            }
            Ok(Err(error)) => warn!(error = in_words(&error), "cannot check the packet filter"),
            Err(error) => warn!(%error, "cannot check the packet filter"),
        }
    }

    async fn write_record(&mut self) -> Result<(), RecordError> {
        let file = self.options.state_file.clone();
        write(self.record.clone(), file).await
    }
}
