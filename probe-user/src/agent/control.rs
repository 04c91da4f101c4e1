//! The control channel's place in the agent: what a controller pushes goes to the task that applies
//! egress IPs, and to the main loop, which alone writes maps.

use anyhow::{Context, Result};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tracing::{info, warn};

use super::in_words;
use super::run::Agent;
use super::settings::Settings;
use super::status::SharedStatus;
use crate::channel::{
    AskReport, Bound, Duty, KeyPush, Node, Push, Question, Refusal, Report, ServeError,
    WitnessReport,
};
use crate::egress::{self, ApplyError};
use crate::keys::NodeKeys;
use crate::tunnels::{NamesFile, TunnelQuestion, TunnelReport};
use crate::witness::{self, DutyError, Failure};

/// Keys that a controller has pushed.
pub(super) struct NewKeys {
    keys: NodeKeys,
    done: oneshot::Sender<Result<(), String>>,
}

/// The control channel, served.
pub(super) struct Control {
    server: JoinHandle<Result<(), ServeError>>,
    keys: mpsc::Receiver<NewKeys>,
}

impl Control {
    /// Serves the channel if the settings ask for it.
    pub(super) async fn start(
        settings: &Settings,
        egress: Option<egress::Handle>,
        witness: Option<witness::Handle>,
        status: SharedStatus,
    ) -> Result<Option<Self>> {
        let (Some(choice), Some(egress), Some(witness)) =
            (settings.control.security()?, egress, witness)
        else {
            return Ok(None);
        };
        let bound = Bound::bind(settings.control.listen, choice.open()?).await?;
        info!(address = %bound.local_addr(), "serving the control channel");
        let (sender, keys) = mpsc::channel(1);
        let node = ControlledNode {
            name: settings.node.clone(),
            egress,
            witness,
            keys: sender,
            names_file: NamesFile::beside(&settings.egress.state_file),
            status,
        };
        let server = tokio::spawn(bound.run(node));
        Ok(Some(Self { server, keys }))
    }

    /// The next keys that a controller pushes. Never returns without a channel.
    pub(super) async fn next(control: &mut Option<Self>) -> Result<NewKeys> {
        let Some(control) = control else {
            return std::future::pending().await;
        };
        tokio::select! {
            Some(push) = control.keys.recv() => Ok(push),
            ended = &mut control.server => {
                ended.context("the control channel's server panicked")??;
                anyhow::bail!("the control channel's server has ended")
            }
        }
    }
}

impl Agent {
    /// Writes pushed keys to the key file, then to the maps, if they are others than before.
    pub(super) fn replace_keys(&mut self, new: NewKeys) {
        let outcome = self.try_replace_keys(&new.keys);
        // Whoever pushed may have gone away; what it pushed is in force all the same.
        let _ = new
            .done
            .send(outcome.map_err(|error| in_words(error.as_ref())));
    }

    fn try_replace_keys(&mut self, keys: &NodeKeys) -> Result<()> {
        if self.keys.as_ref() == Some(keys) {
            return Ok(());
        }
        // The file first: what the controller takes for granted outlasts whatever comes.
        keys.replace(&self.settings.key_file)?;
        self.reflector.set_keys(keys)?;
        let before = self.keys.replace(keys.clone());
        let ids: Vec<u16> = keys.all().iter().map(|key| key.id).collect();
        let what = if before.is_none() {
            "brought"
        } else {
            "replaced"
        };
        info!(?ids, "the controller has {what} the probe keys");
        Ok(())
    }
}

/// The node, as the control channel acts on it.
struct ControlledNode {
    name: String,
    egress: egress::Handle,
    witness: witness::Handle,
    keys: mpsc::Sender<NewKeys>,
    names_file: NamesFile,
    status: SharedStatus,
}

impl Node for ControlledNode {
    async fn apply(&self, push: Push) -> Result<Report, Refusal> {
        if let Some(own) = self.witness.instance()
            && let Some(set) = &push.desired.witnesses
            && set.instances.contains(&own)
        {
            let why = format!("witness {own:016x} is this node: it has no say in its own lease");
            return Err(Refusal::Senseless(why));
        }
        let incarnation = push.incarnation.unwrap_or(0);
        let status = self.egress.apply(push.desired, incarnation).await;
        status.map(report).map_err(refusal)
    }

    async fn replace_keys(&self, push: KeyPush) -> Result<(), Refusal> {
        let stopping = || Refusal::Unable("the agent is stopping".to_owned());
        let applied = self.egress.status().applied_epoch >> 32;
        if u64::from(push.term) < applied {
            let term = push.term;
            return Err(Refusal::Stale(format!(
                "term {term} is older than {applied}"
            )));
        }
        let keys = NodeKeys::new(&self.name, push.keys).map_err(|malformed| {
            Refusal::Senseless(format!("the set of probe keys {malformed}"))
        })?;
        let (done, outcome) = oneshot::channel();
        let new = NewKeys { keys, done };
        self.keys.send(new).await.map_err(|_| stopping())?;
        outcome
            .await
            .map_err(|_| stopping())?
            .map_err(|error| Refusal::Unable(format!("cannot take the probe keys: {error}")))
    }

    fn report(&self) -> Report {
        report(self.egress.status())
    }

    async fn witness(&self, duty: Duty) -> Result<WitnessReport, Refusal> {
        self.witness.take_on(duty).await.map_err(witness_refusal)
    }

    async fn ask(&self, question: Question) -> Result<AskReport, Refusal> {
        self.witness.ask(question).await.map_err(witness_refusal)
    }

    async fn tunnels(&self, mut question: TunnelQuestion) -> Result<TunnelReport, Refusal> {
        let (outline, counters, names) = {
            let tunnels = &self.status.lock().tunnels;
            (tunnels.outline(), tunnels.counters(), tunnels.names.clone())
        };
        let nodes = std::mem::take(&mut question.nodes);
        let renamed = !nodes.is_empty() && names.replace(&nodes);
        let file = self.names_file.clone();
        // The main loop has to beat meanwhile.
        let read = tokio::task::spawn_blocking(move || {
            if renamed && let Err(error) = file.write(TunnelQuestion::among(nodes)) {
                warn!(
                    error = in_words(&error),
                    "the nodes' names do not outlast the agent"
                );
            }
            counters.read(|address| question.concerns(address))
        });
        let unable = |error: String| Refusal::Unable(format!("cannot read tunnels: {error}"));
        let tunnels = read.await.map_err(|panic| unable(panic.to_string()))?;
        let report = TunnelReport {
            tunnels: tunnels.map_err(|error| unable(in_words(&error)))?,
            ..outline
        };
        Ok(report.limited(&names))
    }
}

fn report(status: egress::Status) -> Report {
    Report {
        applied_epoch: status.applied_epoch,
        incarnation: status.incarnation,
        addresses: status.addresses,
        not_fenced: status.not_fenced,
        witness_version: status.witness_version,
    }
}

fn refusal(error: ApplyError) -> Refusal {
    match error {
        ApplyError::OlderEpoch { .. }
        | ApplyError::OlderWitnesses { .. }
        | ApplyError::WrongIncarnation { .. } => Refusal::Stale(error.to_string()),
        ApplyError::NotRecorded(_) | ApplyError::Stopping => Refusal::Unable(error.to_string()),
    }
}

fn witness_refusal(failure: Failure) -> Refusal {
    let why = in_words(&failure);
    match failure {
        Failure::Duty(DutyError::OtherInstance { .. } | DutyError::Older { .. }) => {
            Refusal::Stale(why)
        }
        Failure::Duty(DutyError::Itself { .. }) | Failure::Ask(_) => Refusal::Senseless(why),
        Failure::Duty(DutyError::NoMemory | DutyError::NotStored { .. })
        | Failure::NotRecorded(_)
        | Failure::Stopping => Refusal::Unable(why),
    }
}
