//! Follows the configuration file while the controller runs.

use std::path::PathBuf;
use std::time::Duration;

use probe_user::keys::{ClusterKeys, KeyError};
use probe_user::logging::in_words;
use probe_user::settings::{self, Invalid, SettingsError};
use tokio::signal::unix::Signal;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::egress::{EgressHandle, Request};
use super::watch::FileStamp;
use super::{NodesError, Options, Resolved, Settings, resolve};
use super::{publish, tunnel_web};
use crate::failover::Gateway;
use crate::metrics::Metrics;
use crate::monitor::NodeSpec;
use crate::monitor::driver::Control;
use crate::services::Group;
use crate::tunnels::TunnelEnd;

/// Prefix of environment variables that override the file.
const ENVIRONMENT: &str = "PULSEPATH_CONTROLLER";
/// How often the files are looked at. A change is acted upon once a second look finds the same:
/// a file that is still being written is not a new configuration.
const LOOK: Duration = Duration::from_millis(250);

/// Why a configuration is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file or a value in it.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The cluster key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The nodes.
    #[error(transparent)]
    Nodes(#[from] NodesError),
    /// The gateways.
    #[error(transparent)]
    Gateways(#[from] Invalid),
}

/// A configuration that has been accepted.
pub(super) struct Loaded {
    pub(super) settings: Settings,
    pub(super) resolved: Resolved,
    pub(super) gateways: Vec<Gateway>,
    keys: ClusterKeys,
    stamps: [FileStamp; 2],
}

/// Loads file, environment and overrides, and the cluster key. Nodes with a wrong address stay as
/// they are in `before`.
pub(super) fn load(options: &Options, before: &[NodeSpec]) -> Result<Loaded, ConfigError> {
    let config = FileStamp::of(&options.config);
    let settings: Settings = settings::load(Some(&options.config), ENVIRONMENT, &options.set)?;
    let key = FileStamp::of(&settings.cluster_key_file);
    let keys = ClusterKeys::read(&settings.cluster_key_file)?;
    let resolved = resolve(&settings.nodes, &keys, before)?;
    Ok(Loaded {
        gateways: settings.gateways()?,
        settings,
        resolved,
        keys,
        stamps: [config, key],
    })
}

/// Follows the files.
pub(super) struct Reloader {
    options: Options,
    key_file: PathBuf,
    /// By which the controller runs, but for what is followed.
    settings: Settings,
    specs: Vec<NodeSpec>,
    /// Of the files as they were last acted upon, accepted or not.
    acted: [FileStamp; 2],
    seen: [FileStamp; 2],
    followers: Followers,
    metrics: Metrics,
}

/// Who is told of another configuration.
pub(super) struct Followers {
    pub(super) control: Control,
    pub(super) egress: EgressHandle,
    pub(super) groups: watch::Sender<Vec<Group>>,
    pub(super) tunnel_ends: watch::Sender<Vec<TunnelEnd>>,
}

impl Reloader {
    pub(super) fn new(
        options: Options,
        loaded: Loaded,
        followers: Followers,
        metrics: Metrics,
    ) -> Self {
        let Loaded {
            settings,
            resolved,
            gateways,
            keys,
            stamps,
        } = loaded;
        followers.egress.ask(Request::Configure {
            specs: resolved.specs.clone(),
            gateways,
            keys,
        });
        Self {
            options,
            key_file: settings.cluster_key_file.clone(),
            settings,
            specs: resolved.specs,
            seen: stamps.clone(),
            acted: stamps,
            followers,
            metrics,
        }
    }

    /// Follows the files, and reloads on `hangup`, for ever.
    pub(super) async fn run(mut self, mut hangup: Signal) {
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = look.tick() => {
                    let stamps = self.stamps();
                    let settled = stamps == self.seen;
                    self.seen = stamps;
                    if settled && self.seen != self.acted {
                        self.reload();
                    }
                }
                _ = hangup.recv() => self.reload(),
            }
        }
    }

    fn stamps(&self) -> [FileStamp; 2] {
        [
            FileStamp::of(&self.options.config),
            FileStamp::of(&self.key_file),
        ]
    }

    fn reload(&mut self) {
        self.acted = self.stamps();
        match load(&self.options, &self.specs) {
            Ok(loaded) => self.accept(loaded),
            Err(error) => {
                self.metrics.reload_failures.inc();
                tracing::error!(
                    error = in_words(&error),
                    "the configuration is not accepted; the last good one stays in force"
                );
            }
        }
    }

    fn accept(&mut self, loaded: Loaded) {
        let Resolved { specs, problems } = loaded.resolved;
        for problem in &problems {
            self.metrics.reload_failures.inc();
            tracing::error!(
                node = problem.node,
                error = %problem,
                "the node is not accepted as configured and stays as it was"
            );
        }
        if !alike_but_for_cluster(&loaded.settings, &self.settings) {
            tracing::warn!(
                "settings other than nodes, gateways, services and keys have changed: they need a \
                 restart"
            );
        }
        tracing::info!(
            nodes = specs.len(),
            problems = problems.len(),
            "configuration reloaded"
        );
        self.key_file = loaded.settings.cluster_key_file;
        self.specs.clone_from(&specs);
        let Followers {
            control,
            egress,
            groups,
            tunnel_ends,
        } = &self.followers;
        control.apply(specs.clone());
        egress.ask(Request::Configure {
            specs,
            gateways: loaded.gateways,
            keys: loaded.keys,
        });
        groups.send_replace(publish::groups(&loaded.settings.services));
        tunnel_ends.send_replace(tunnel_web::ends(&loaded.settings.nodes));
    }
}

/// Whether two configurations differ in nothing but what is followed while running.
fn alike_but_for_cluster(one: &Settings, other: &Settings) -> bool {
    let bare = |settings: &Settings| Settings {
        nodes: Vec::new(),
        gateways: Vec::new(),
        services: Vec::new(),
        cluster_key_file: PathBuf::new(),
        ..settings.clone()
    };
    bare(one) == bare(other)
}
