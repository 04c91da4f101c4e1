//! Drives the [`Applier`]: shows it the node, carries out its steps, and answers the [`Handle`].

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::{Duration, Instant};

use futures_util::stream::Stream;
use futures_util::{FutureExt, StreamExt};
use rtnetlink::MulticastGroup;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinHandle, spawn_blocking};
use tracing::{debug, info, warn};

use super::apply::{Applier, Observed, Policy, Step};
use super::handle::{ApplyError, Counters, Handle, Request, Status};
use super::in_words;
use super::net::wire::{Heard, Wire};
use super::net::{NetError, conntrack, links, nft, policy, sysctl};
use super::record::{Record, RecordError};
use super::types::Desired;

/// How often everything is looked at although no change was heard of.
const LOOK: Duration = Duration::from_secs(30);
/// The packet filter is looked at this often at most, however often somebody changes it.
const RULES_GAP: Duration = Duration::from_secs(1);
/// Rounds of one pass. Each one brings a claim further; more than this means that somebody undoes
/// what we do.
const MAX_ROUNDS: usize = 8;
const SHORTEST_SLEEP: Duration = Duration::from_millis(1);
/// Sets that wait to be applied.
const BACKLOG: usize = 8;

/// Where the node's incarnation and epoch are kept.
pub trait Assignment: Send {
    /// The node's incarnation.
    fn incarnation(&self) -> Result<u64, Box<dyn Error + Send + Sync>>;
    /// The epoch that is in force.
    fn applied_epoch(&self) -> Result<u64, Box<dyn Error + Send + Sync>>;
    /// Another epoch is in force.
    fn set_applied_epoch(&mut self, epoch: u64) -> Result<(), Box<dyn Error + Send + Sync>>;
}

/// How egress IPs are applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Where addresses belong that do not say it themselves; `None`: where their subnet is.
    pub interface: Option<String>,
    /// Whether sysctls may be set. Otherwise they are only checked.
    pub set_sysctls: bool,
    /// The file of the record.
    pub state_file: PathBuf,
}

/// Why egress IPs cannot be applied at all.
#[derive(Debug, thiserror::Error)]
pub enum EgressError {
    /// No netlink socket.
    #[error("cannot open a netlink socket for addresses")]
    Netlink(#[source] std::io::Error),
    /// Nobody tells of changes to the packet filter.
    #[error("cannot watch the packet filter")]
    Filter(#[source] Box<dyn Error + Send + Sync>),
    /// The node's assignment cannot be read.
    #[error("cannot read the node's assignment")]
    Assignment(#[source] Box<dyn Error + Send + Sync>),
}

type Notices = Pin<Box<dyn Stream<Item = ()> + Send>>;

/// The task that holds the node's egress IPs.
pub struct Egress {
    options: Options,
    assignment: Box<dyn Assignment>,
    applier: Applier,
    record: Record,
    route: rtnetlink::Handle,
    notices: Notices,
    filter: nft::Watch,
    connection: JoinHandle<()>,
    wire: Wire,
    heard: mpsc::Receiver<Heard>,
    requests: mpsc::Receiver<Request>,
    waiting: Vec<oneshot::Sender<Result<Status, ApplyError>>>,
    status: watch::Sender<Status>,
    counters: Counters,
    problems: Vec<String>,
    /// The policy in force; `None`: not known.
    policy: Option<Policy>,
    policy_problems: Vec<String>,
    /// Uplinks may have changed, or what is to leave by them.
    policy_is_due: bool,
}

impl Egress {
    /// Starts the task. It goes on with what an earlier agent was told, and ends when every handle
    /// is gone; whatever it put on the node stays there. Needs a tokio runtime.
    ///
    /// # Errors
    /// See [`EgressError`].
    pub fn start(options: Options, assignment: Box<dyn Assignment>) -> Result<Handle, EgressError> {
        let groups = [
            MulticastGroup::Link,
            MulticastGroup::Ipv4Ifaddr,
            MulticastGroup::Ipv6Ifaddr,
        ];
        let (connection, route, messages) =
            rtnetlink::new_multicast_connection(&groups).map_err(EgressError::Netlink)?;
        let incarnation = assignment.incarnation().map_err(EgressError::Assignment)?;
        let applied = assignment
            .applied_epoch()
            .map_err(EgressError::Assignment)?;
        let mut applier = Applier::new(options.interface.clone(), applied);
        let record = go_on(&options, incarnation, applied, &mut applier);
        let (wire, heard) = Wire::new();
        let (sender, requests) = mpsc::channel(BACKLOG);
        let (status, receiver) = watch::channel(Status {
            applied_epoch: applied,
            incarnation,
            ..Status::default()
        });
        let task = Self {
            options,
            assignment,
            applier,
            record,
            route,
            notices: Box::pin(messages.map(|_| ())),
            filter: nft::Watch::new().map_err(|error| EgressError::Filter(Box::new(error)))?,
            connection: tokio::spawn(connection),
            wire,
            heard,
            requests,
            waiting: Vec::new(),
            status,
            counters: Counters::default(),
            problems: Vec::new(),
            policy: None,
            policy_problems: Vec::new(),
            policy_is_due: true,
        };
        tokio::spawn(task.run());
        Ok(Handle {
            requests: sender,
            status: receiver,
        })
    }

    async fn run(mut self) {
        let mut look = Instant::now() + LOOK;
        let mut next_rules = Instant::now();
        let mut rules_changed = false;
        loop {
            self.work().await;
            let now = Instant::now();
            if look <= now || (rules_changed && next_rules <= now) {
                (look, next_rules, rules_changed) = (now + LOOK, now + RULES_GAP, false);
                self.policy_is_due = true;
                self.check_rules().await;
            }
            let rules = rules_changed.then_some(next_rules);
            let due = rules.into_iter().chain(self.applier.next_wake(now));
            let wake = due.fold(look, Instant::min);
            // Even if something is due at once: what keeps failing must not keep a CPU busy.
            let wake = wake.max(now + SHORTEST_SLEEP);
            tokio::select! {
                request = self.requests.recv() => match request {
                    Some(request) => self.accept(request),
                    None => return,
                },
                heard = self.heard.recv() => self.conflicts(heard),
                _ = self.notices.next() => self.take_notices(),
                () = self.filter.changed(), if !rules_changed => rules_changed = true,
                () = tokio::time::sleep_until(wake.into()) => {}
            }
        }
    }

    /// Changes come in bursts; one look is enough.
    fn take_notices(&mut self) {
        while self.notices.next().now_or_never().flatten().is_some() {}
        self.policy_is_due = true;
    }

    fn conflicts(&mut self, first: Option<Heard>) {
        let now = Instant::now();
        let mut next = first;
        while let Some(Heard { claimed, .. }) = next {
            if self
                .applier
                .desired()
                .any(|it| it.address == claimed.address)
            {
                self.counters.conflicts += 1;
                debug!(address = %claimed.address, mac = ?claimed.mac, "somebody else claims an egress IP");
            }
            self.applier
                .conflict(now, claimed.address, claimed.mac, claimed.probing);
            next = self.heard.try_recv().ok();
        }
    }

    fn accept(&mut self, request: Request) {
        let Request {
            desired,
            incarnation,
            reply,
        } = request;
        match self.take_on(&desired, incarnation) {
            Ok(()) => self.waiting.push(reply),
            // Whoever asked may have gone.
            Err(error) => drop(reply.send(Err(error))),
        }
    }

    fn take_on(&mut self, desired: &Desired, meant: u64) -> Result<(), ApplyError> {
        let unknown =
            |error: Box<dyn Error + Send + Sync>| ApplyError::NotRecorded(error.to_string());
        let node = self.assignment.incarnation().map_err(unknown)?;
        if meant != 0 && meant != node {
            return Err(ApplyError::WrongIncarnation { meant, node });
        }
        if !self.applier.is_news(desired)? {
            return Ok(());
        }
        info!(
            epoch = desired.epoch,
            addresses = desired.addresses.len(),
            "told another set of egress IPs"
        );
        let mut record = self.record.clone();
        (record.incarnation, record.desired) = (node, Some(desired.clone()));
        let written = record.write(&self.options.state_file);
        written.map_err(|error| ApplyError::NotRecorded(in_words(&error)))?;
        self.record = record;
        self.applier.desire(desired);
        self.policy_is_due = true;
        Ok(())
    }

    fn write_record(&self) -> Result<(), RecordError> {
        self.record.write(&self.options.state_file)
    }

    /// Does whatever can be done now.
    async fn work(&mut self) {
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
            policy::uplinks(&self.route).await?
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
        self.prepare(&observed)?;
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
    fn prepare(&mut self, observed: &Observed) -> Result<(), NetError> {
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
            && let Err(error) = self.write_record()
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
            Step::Probe { address, link } => self.wire.probe(link, address)?,
            Step::Add { address, link } => {
                if self.record.added.insert(address) && !tells_origin {
                    self.write_record()?;
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
                self.write_record()?;
                self.assignment.set_applied_epoch(epoch)?;
                info!(epoch, "the set of egress IPs is in force");
            }
        }
        Ok(())
    }

    /// Somebody may have flushed the packet filter.
    async fn check_rules(&mut self) {
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

    fn publish(&self) {
        let status = Status {
            applied_epoch: self.applier.applied_epoch(),
            incarnation: self.status.borrow().incarnation,
            addresses: self.applier.reports(),
            problems: [self.problems.as_slice(), &self.policy_problems].concat(),
            counters: self.counters,
        };
        self.status.send_if_modified(|present| {
            for problem in &status.problems {
                if !present.problems.contains(problem) {
                    warn!(problem, "egress IPs do not work as they should");
                }
            }
            let changed = *present != status;
            *present = status;
            changed
        });
    }
}

impl Drop for Egress {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// The record of an earlier agent, whose set the applier goes on with, unless it was told in another
/// incarnation: the addresses may be somebody else's by now.
fn go_on(options: &Options, incarnation: u64, applied: u64, applier: &mut Applier) -> Record {
    let mut record = match Record::read(&options.state_file) {
        Ok(record) => record.unwrap_or_default(),
        Err(error) => {
            warn!(error = in_words(&error), "going on without a record");
            Record::default()
        }
    };
    match record.desired.take() {
        Some(desired) if record.incarnation == incarnation && desired.epoch >= applied => {
            info!(
                epoch = desired.epoch,
                addresses = desired.addresses.len(),
                "going on with the recorded egress IPs"
            );
            applier.desire(&desired);
            record.desired = Some(desired);
        }
        Some(desired) => {
            warn!(
                epoch = desired.epoch,
                "the recorded egress IPs are of another incarnation: releasing them"
            );
        }
        None => {}
    }
    record
}
