//! Takes part in the election, and says when this replica decides.
//!
//! It has a thread, a runtime and a connection of its own: however much there is to decide and to write
//! elsewhere, the Lease is renewed in time.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, Config, ResourceExt as _};
use probe_user::logging::in_words;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use super::election::{Answer, Election, ElectionSettings, Held, Request, Term};
use super::patience::{ClientError, within};
use super::place::Place;
use super::record::Records;
use crate::daemon::{LeaseSettings, Role};
use crate::tenure::Tenure;

/// So long the end waits for the Lease to be given away.
const FAREWELL: Duration = Duration::from_secs(2);

/// Takes part in the election.
pub(super) struct Leadership {
    stop: oneshot::Sender<()>,
    /// Nothing is ever sent: it is dropped at the end.
    ended: oneshot::Receiver<()>,
}

/// Why a controller cannot take part.
#[derive(Debug, thiserror::Error)]
pub enum LeadershipError {
    /// There is no runtime or thread for it.
    #[error("cannot start the election's thread")]
    Thread(#[from] io::Error),
    /// There is no way to the API server.
    #[error("cannot reach the API server for the election")]
    Client(#[source] Box<kube::Error>),
}

impl Leadership {
    /// `roles` are told when this replica decides, and `leader` who leads.
    pub(super) fn spawn(
        candidate: Candidate,
        config: Config,
        roles: mpsc::UnboundedSender<Role>,
        leader: watch::Sender<Option<String>>,
    ) -> Result<Self, LeadershipError> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let client = {
            // Its tasks belong to that runtime.
            let _inside = runtime.enter();
            Client::try_from(config).map_err(|error| LeadershipError::Client(Box::new(error)))?
        };
        let (stop, stopped) = oneshot::channel();
        let (end, ended) = oneshot::channel::<()>();
        let settings = ElectionSettings {
            identity: candidate.place.identity.clone(),
            duration: candidate.lease.duration.0,
            renew: candidate.lease.renew.0,
        };
        let running = Running {
            election: Election::new(Instant::now(), settings),
            leases: Api::namespaced(client, &candidate.place.namespace),
            home: Handle::current(),
            candidate,
            roles,
            leader,
            leading: None,
            failing: false,
        };
        let run = move || {
            let _end = end;
            runtime.block_on(running.run(stopped));
        };
        thread::Builder::new()
            .name("election".to_owned())
            .spawn(run)?;
        Ok(Self { stop, ended })
    }

    /// Gives the Lease away, if this replica has it.
    pub(super) async fn end(self) {
        drop(self.stop);
        if tokio::time::timeout(FAREWELL, self.ended).await.is_err() {
            tracing::warn!("the Lease was not given away: others lead once it is over");
        }
    }
}

/// Who stands for election, and what for.
pub(super) struct Candidate {
    /// By which the record is read and written.
    pub(super) client: Client,
    pub(super) place: Place,
    pub(super) lease: LeaseSettings,
    /// The ConfigMap that holds the record.
    pub(super) record: String,
}

struct Running {
    election: Election,
    leases: Api<Lease>,
    /// Where the record is read and written: the runtime of those who decide.
    home: Handle,
    candidate: Candidate,
    roles: mpsc::UnboundedSender<Role>,
    leader: watch::Sender<Option<String>>,
    leading: Option<Leading>,
    /// Whether the last request came to nothing.
    failing: bool,
}

/// A term of this process.
struct Leading {
    number: u64,
    tenure: Tenure,
    /// Reads and writes the record.
    records: JoinHandle<()>,
}

impl Running {
    async fn run(mut self, mut stopped: oneshot::Receiver<()>) {
        let mut stopping = false;
        loop {
            let now = Instant::now();
            if let Some(request) = self.election.poll(now) {
                let answer = self.ask(request).await;
                self.election.handle(Instant::now(), answer);
                self.look();
                continue;
            }
            if stopping && !self.election.is_releasing() {
                return;
            }
            let wake = self.election.next_wake().unwrap_or(now);
            let end = self
                .leading
                .as_ref()
                .and_then(|leading| leading.tenure.end());
            let wake = end.map_or(wake, |end| wake.min(end));
            tokio::select! {
                () = tokio::time::sleep_until(wake.into()) => {}
                _ = &mut stopped, if !stopping => {
                    stopping = true;
                    self.give_up();
                }
            }
            self.look();
        }
    }

    /// Acts upon whether this replica leads.
    fn look(&mut self) {
        let now = Instant::now();
        let is_over = |leading: &Leading| leading.tenure.is_over(now);
        if self.leading.as_ref().is_some_and(is_over) && self.election.term(now).is_some() {
            // The record has another writer.
            self.give_up();
        }
        let term = self.election.term(now);
        if let (Some(leading), Some(term)) = (&self.leading, term)
            && leading.number == term.number
        {
            leading.tenure.set_end(term.end);
        } else {
            self.follow();
            self.leading = term.map(|term| self.lead(term));
        }
        self.leader.send_if_modified(|known| {
            let leader = self.election.leader(now).map(str::to_owned);
            let is_new = *known != leader;
            *known = leader;
            is_new
        });
    }

    fn lead(&self, term: Term) -> Leading {
        tracing::info!(
            identity = self.candidate.place.identity,
            "this controller leads"
        );
        let Candidate {
            client,
            place,
            record,
            ..
        } = &self.candidate;
        let tenure = Tenure::until(term.end);
        let records = Records::new(client, place, record);
        Leading {
            number: term.number,
            tenure: tenure.clone(),
            records: self.home.spawn(records.run(tenure, self.roles.clone())),
        }
    }

    fn follow(&mut self) {
        let Some(leading) = self.leading.take() else {
            return;
        };
        tracing::warn!(
            identity = self.candidate.place.identity,
            "this controller leads no more"
        );
        leading.tenure.set_end(Instant::now());
        leading.records.abort();
        // The task that hears it ends with the process.
        let _ = self.roles.send(Role::Follower);
    }

    fn give_up(&mut self) {
        self.follow();
        self.election.release(Instant::now());
    }

    /// An answer counts from when it was asked for: after a lease it is worth nothing.
    fn patience(&self) -> Duration {
        self.candidate.lease.duration.0
    }

    async fn ask(&mut self, request: Request) -> Answer {
        let name = &self.candidate.lease.name;
        let answer = match request {
            Request::Read => {
                let get = self.leases.get_opt(name);
                let read = within(self.patience(), "get the lease", get).await;
                read.map(|lease| Answer::Read(lease.as_ref().map(held)))
            }
            Request::Write {
                version,
                holder,
                transitions,
            } => self.write(version, holder, transitions).await,
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) if error.is_conflict() || error.is_not_found() => Answer::Conflict,
            Err(error) => {
                if !std::mem::replace(&mut self.failing, true) {
                    tracing::warn!(error = in_words(&error), "the election stands still");
                }
                return Answer::Failed;
            }
        };
        if std::mem::take(&mut self.failing) {
            tracing::info!("the election goes on");
        }
        answer
    }

    async fn write(
        &self,
        version: Option<String>,
        holder: String,
        transitions: i32,
    ) -> Result<Answer, ClientError> {
        let LeaseSettings { name, duration, .. } = &self.candidate.lease;
        let now = MicroTime(Timestamp::now());
        let is_new = version.is_none();
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                resource_version: version,
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(holder),
                lease_duration_seconds: i32::try_from(duration.0.as_secs()).ok(),
                lease_transitions: Some(transitions),
                renew_time: Some(now),
                ..LeaseSpec::default()
            }),
        };
        let params = PostParams::default();
        let written = match is_new {
            true => {
                let write = self.leases.create(&params, &lease);
                within(self.patience(), "create the lease", write).await?
            }
            false => {
                let write = self.leases.replace(name, &params, &lease);
                within(self.patience(), "update the lease", write).await?
            }
        };
        Ok(Answer::Written(held(&written)))
    }
}

fn held(lease: &Lease) -> Held {
    let spec = lease.spec.clone().unwrap_or_default();
    let seconds = spec.lease_duration_seconds.unwrap_or_default();
    Held {
        version: lease.resource_version().unwrap_or_default(),
        holder: spec.holder_identity.unwrap_or_default(),
        duration: Duration::from_secs(seconds.try_into().unwrap_or_default()),
        transitions: spec.lease_transitions.unwrap_or_default(),
    }
}
