//! Drives the [`Applier`]: shows it the node, carries out its steps, and answers the [`Handle`].

mod work;

use std::error::Error;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::{Duration, Instant};

use futures_util::stream::Stream;
use futures_util::{FutureExt, StreamExt};
use rtnetlink::MulticastGroup;
use rtnetlink::sys::AsyncSocket;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinHandle, spawn_blocking};
use tracing::{debug, info, warn};

use super::apply::{Applier, Policy};
use super::fencing::{Fencing, Pending};
use super::handle::{ApplyError, Counters, Handle, Request, Status};
use super::in_words;
use super::net::nft;
use super::net::wire::{Heard, Wire};
use super::record::{Record, RecordError};
use super::types::Desired;
use crate::kernel::WitnessSet;

/// How often everything is looked at although no change was heard of.
const LOOK: Duration = Duration::from_secs(30);
/// No lease is longer, whatever a controller asks for: 10 min.
const LONGEST_LEASE_MS: u32 = 600_000;
/// How often the fence is seen to: nothing tells of a program that comes before it.
const FENCE_LOOK: Duration = Duration::from_secs(1);
/// The packet filter is looked at this often at most, however often somebody changes it.
const RULES_GAP: Duration = Duration::from_secs(1);
const SHORTEST_SLEEP: Duration = Duration::from_millis(1);
/// Sets that wait to be applied.
const BACKLOG: usize = 8;

/// Where the node's incarnation and epoch are kept.
pub trait Assignment: Send {
    /// The node's incarnation.
    fn incarnation(&self) -> Result<u64, Box<dyn Error + Send + Sync>>;
    /// The epoch that is in force.
    fn applied_epoch(&self) -> Result<u64, Box<dyn Error + Send + Sync>>;
    /// Version of the witness set that is in force.
    fn witness_version(&self) -> Result<u64, Box<dyn Error + Send + Sync>>;
    /// The longest lease that any probe may give the node from now on, ms; 0: none.
    fn set_lease_limit(&mut self, lease_ms: u32) -> Result<(), Box<dyn Error + Send + Sync>>;
    /// Another epoch is in force.
    fn set_applied_epoch(&mut self, epoch: u64) -> Result<(), Box<dyn Error + Send + Sync>>;
    /// From when this is done on, this set's votes extend the lease, and no others.
    fn set_witnesses(&mut self, set: WitnessSet) -> Pending<()>;
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
    fencing: Box<dyn Fencing>,
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
    /// Why some devices are not fenced.
    not_fenced: Vec<String>,
    /// Uplinks may have changed, or what is to leave by them.
    policy_is_due: bool,
}

impl Egress {
    /// Starts the task. It goes on with what an earlier agent was told, and ends when every handle
    /// is gone; whatever it put on the node stays there. Needs a tokio runtime.
    ///
    /// # Errors
    /// See [`EgressError`].
    pub fn start(
        options: Options,
        mut assignment: Box<dyn Assignment>,
        fencing: Box<dyn Fencing>,
    ) -> Result<Handle, EgressError> {
        let groups = [
            MulticastGroup::Link,
            MulticastGroup::Ipv4Ifaddr,
            MulticastGroup::Ipv6Ifaddr,
        ];
        let (mut connection, route, messages) =
            rtnetlink::new_multicast_connection(&groups).map_err(EgressError::Netlink)?;
        let socket = connection.socket_mut().socket_ref();
        // What a request for routes says is a filter from then on.
        socket
            .set_netlink_get_strict_chk(true)
            .map_err(EgressError::Netlink)?;
        let incarnation = assignment.incarnation().map_err(EgressError::Assignment)?;
        let applied = assignment
            .applied_epoch()
            .map_err(EgressError::Assignment)?;
        let witness_version = assignment
            .witness_version()
            .map_err(EgressError::Assignment)?;
        let mut applier = Applier::new(options.interface.clone(), applied, witness_version);
        let record = go_on(&options, incarnation, applied, &mut applier);
        if let Some(desired) = &record.desired {
            // An agent that was killed may have recorded it and done no more.
            assignment
                .set_lease_limit(limit(desired))
                .map_err(EgressError::Assignment)?;
        }
        let (wire, heard) = Wire::new();
        let (sender, requests) = mpsc::channel(BACKLOG);
        let (status, receiver) = watch::channel(Status {
            applied_epoch: applied,
            incarnation,
            witness_version,
            ..Status::default()
        });
        let task = Self {
            options,
            assignment,
            fencing,
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
            not_fenced: Vec::new(),
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
        let mut fence_look = Instant::now() + FENCE_LOOK;
        let mut rules_changed = false;
        loop {
            if fence_look <= Instant::now() {
                fence_look = Instant::now() + FENCE_LOOK;
                self.applier.forget_fence();
            }
            self.work().await;
            let now = Instant::now();
            if look <= now || (rules_changed && next_rules <= now) {
                (look, next_rules, rules_changed) = (now + LOOK, now + RULES_GAP, false);
                self.policy_is_due = true;
                self.check_rules().await;
            }
            let rules = rules_changed.then_some(next_rules);
            let due = rules.into_iter().chain(self.applier.next_wake(now));
            let fence = self.applier.is_fenced().then_some(fence_look);
            let wake = due.chain(fence).fold(look, Instant::min);
            // Even if something is due at once: what keeps failing must not keep a CPU busy.
            let wake = wake.max(now + SHORTEST_SLEEP);
            tokio::select! {
                request = self.requests.recv() => match request {
                    Some(request) => self.accept(request).await,
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
        // A device may have been made anew.
        self.applier.forget_fence();
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

    async fn accept(&mut self, request: Request) {
        let Request {
            desired,
            incarnation,
            reply,
        } = request;
        match self.take_on(&desired, incarnation).await {
            Ok(()) => self.waiting.push(reply),
            // Whoever asked may have gone.
            Err(error) => drop(reply.send(Err(error))),
        }
    }

    async fn take_on(&mut self, desired: &Desired, meant: u64) -> Result<(), ApplyError> {
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
        let written = write(record.clone(), self.options.state_file.clone()).await;
        written.map_err(|error| ApplyError::NotRecorded(in_words(&error)))?;
        self.record = record;
        let limit = self.assignment.set_lease_limit(limit(desired));
        limit.map_err(unknown)?;
        self.applier.desire(Instant::now(), desired);
        self.policy_is_due = true;
        Ok(())
    }

    fn publish(&self) {
        let status = Status {
            applied_epoch: self.applier.applied_epoch(),
            incarnation: self.status.borrow().incarnation,
            addresses: self.applier.reports(),
            problems: [self.problems.as_slice(), &self.policy_problems].concat(),
            not_fenced: self.not_fenced.clone(),
            witness_version: self.applier.witness_version(),
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

/// The longest lease that any probe may give the node, ms.
fn limit(desired: &Desired) -> u32 {
    desired.lease_ms.min(LONGEST_LEASE_MS)
}

/// Durability takes its time, which the agent's beat does not have.
async fn write(record: Record, path: PathBuf) -> Result<(), RecordError> {
    let file = path.clone();
    let written = spawn_blocking(move || record.write(&file)).await;
    // It panicked, or the runtime ends.
    written.unwrap_or_else(|error| {
        Err(RecordError::File {
            action: "write",
            path,
            source: error.into(),
        })
    })
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
            applier.desire(Instant::now(), &desired);
            record.desired = Some(desired);
        }
        Some(desired) => {
            warn!(
                epoch = desired.epoch,
                "the recorded egress IPs are not of this incarnation or older than what is in force: \
                 going on without them"
            );
        }
        None => {}
    }
    record
}
