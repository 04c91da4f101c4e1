//! The daemon in a cluster.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kube::api::ListParams;
use kube::{Api, Client, Config};
use probe_user::logging::in_words;
use tokio::signal::unix::Signal;
use tokio::sync::{mpsc, watch};

use super::leadership::{Candidate, Leadership, LeadershipError};
use super::patience::{ClientError, patiently};
use super::place::{Place, PlaceError};
use super::resources::NodeHealth;
use super::restored::restored;
use super::world::{Facts, World};
use super::writers::Writers;
use crate::daemon::{
    Basis, DaemonError, Files, Followers, Herald, Restored, Settings, Signals, Special, Unrecorded,
    Wiring,
};
use crate::metrics::Metrics;
use crate::monitor::Record;

/// Time between two attempts to reach the API server at the start.
const RETRY: Duration = Duration::from_secs(1);

/// Why the controller did not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum KubernetesError {
    /// What any controller does.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// Where it is.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The election.
    #[error(transparent)]
    Leadership(#[from] LeadershipError),
    /// There is no way to the API server.
    #[error("no way to the API server is configured (a service account, or KUBECONFIG)")]
    Client(#[source] Box<kube::Error>),
}

/// Runs a controller in a cluster by its files, of which `basis` was read, until it is told to stop
/// (SIGTERM, SIGINT).
pub(crate) async fn run(files: Files, basis: Basis) -> Result<(), KubernetesError> {
    let mut signals = Signals::new()?;
    let settings = &basis.settings;
    let place = Place::find(&settings.kubernetes)?;
    let no_way = |error| KubernetesError::Client(Box::new(error));
    let config = Config::infer().await;
    let config = config.map_err(|error| no_way(kube::Error::InferConfig(error)))?;
    let client = Client::try_from(config.clone()).map_err(no_way)?;
    let mut world = World::new(&client, settings);
    let begun = async {
        let nodes = last_states(&client).await;
        world.changed().await;
        nodes
    };
    let [terminate, interrupt] = &mut signals.stop;
    let nodes = tokio::select! {
        nodes = begun => nodes,
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    };
    let (configuration, facts) = world.configuration(settings, &basis.keys);
    let restored = Restored {
        nodes,
        ..Restored::default()
    };
    let specs = configuration.configured.specs.clone();
    let wiring = Wiring::start(settings, restored, specs).await?;
    let (roles, role) = mpsc::unbounded_channel();
    let (news, told) = mpsc::unbounded_channel();
    let (leader, leads) = watch::channel(None);
    let unrecorded = Unrecorded::default();
    let special = Special {
        roles: role,
        unrecorded: unrecorded.clone(),
        herald: Herald::from(news),
        leader: leads,
    };
    let (mut controller, followers) = wiring.finish(special).await?;
    followers.follow(configuration);
    let (facts, known) = watch::channel(facts);
    let writers = Writers {
        client: client.clone(),
        identity: place.identity.clone(),
        board: controller.board.clone(),
        egress: controller.egress.clone(),
        facts: known,
        unrecorded,
    };
    writers.spawn(told, &mut controller.tasks);
    let candidate = Candidate {
        client,
        place,
        lease: settings.kubernetes.lease.clone(),
        record: settings.kubernetes.record.clone(),
    };
    let leadership = Leadership::spawn(candidate, config, roles, leader)?;
    let following = Following {
        files,
        basis,
        world,
        followers,
        facts,
        metrics: controller.metrics.clone(),
    };
    controller.tasks.spawn(following.run(signals.hangup));
    Ok(controller.run(signals.stop, leadership.end()).await?)
}

/// The states that an earlier controller wrote. Without an API server there is nothing to begin with.
async fn last_states(client: &Client) -> HashMap<String, Record> {
    let health: Api<NodeHealth> = Api::all(client.clone());
    loop {
        let list: Result<_, ClientError> =
            patiently("list nodehealths", health.list(&ListParams::default())).await;
        match list {
            Ok(list) => return restored(&list.items),
            Err(error) => {
                let error = in_words(&error);
                tracing::error!(error, "the controller waits for the API server");
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

/// Follows the cluster and the files.
struct Following {
    files: Files,
    basis: Basis,
    world: World,
    followers: Followers,
    facts: watch::Sender<Arc<Facts>>,
    metrics: Metrics,
}

impl Following {
    /// For ever.
    async fn run(mut self, mut hangup: Signal) {
        loop {
            tokio::select! {
                () = self.world.changed() => {}
                () = self.files.changed(&mut hangup) => self.reload(),
            }
            let Basis { settings, keys } = &self.basis;
            let (configuration, facts) = self.world.configuration(settings, keys);
            self.followers.follow(configuration);
            self.facts.send_replace(facts);
        }
    }

    fn reload(&mut self) {
        match self.files.load() {
            Ok(basis) => {
                if !alike_but_for_services(&basis.settings, &self.basis.settings) {
                    tracing::warn!(
                        "settings other than services and keys have changed: they need a restart"
                    );
                }
                tracing::info!("configuration reloaded");
                self.basis.settings.services = basis.settings.services;
                self.basis.keys = basis.keys;
            }
            Err(error) => {
                self.metrics.reload_failures.inc();
                tracing::error!(
                    error = in_words(&error),
                    "the configuration is not accepted; the last good one stays in force"
                );
            }
        }
    }
}

fn alike_but_for_services(one: &Settings, other: &Settings) -> bool {
    let services = one.services.clone();
    let cluster_key_file = one.cluster_key_file.clone();
    let other = Settings {
        services,
        cluster_key_file,
        ..other.clone()
    };
    *one == other
}
