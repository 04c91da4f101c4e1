//! Follows the configuration file while the controller runs.

use std::path::PathBuf;

use probe_user::logging::in_words;
use tokio::signal::unix::Signal;

use super::run::StandaloneError;
use super::{Problem, Resolved, resolve};
use crate::daemon::{
    Basis, Configuration, Configured, DaemonError, Files, Followers, Settings, groups, tunnel_ends,
};
use crate::metrics::Metrics;
use crate::monitor::NodeSpec;

/// The nodes and gateways of a configuration, and what is wrong with nodes. These stay as they are in
/// `before`.
pub(super) fn cluster(
    basis: &Basis,
    before: &[NodeSpec],
) -> Result<(Configuration, Vec<Problem>), StandaloneError> {
    let Basis { settings, keys } = basis;
    let Resolved { specs, problems } = resolve(&settings.nodes, keys, before)?;
    let configuration = Configuration {
        configured: Configured {
            specs,
            gateways: settings.gateways()?,
            keys: keys.clone(),
        },
        groups: groups(&settings.services),
        tunnel_ends: tunnel_ends(&settings.nodes),
    };
    Ok((configuration, problems))
}

/// Follows the files.
pub(super) struct Reloader {
    files: Files,
    /// By which the controller runs, but for what is followed.
    settings: Settings,
    specs: Vec<NodeSpec>,
    followers: Followers,
    metrics: Metrics,
}

impl Reloader {
    /// Begins with `configuration`.
    pub(super) fn new(
        files: Files,
        settings: Settings,
        configuration: Configuration,
        followers: Followers,
        metrics: Metrics,
    ) -> Self {
        let specs = configuration.configured.specs.clone();
        followers.follow(configuration);
        Self {
            files,
            settings,
            specs,
            followers,
            metrics,
        }
    }

    /// Follows the files, and reloads on `hangup`, for ever.
    pub(super) async fn run(mut self, mut hangup: Signal) {
        loop {
            self.files.changed(&mut hangup).await;
            if let Err(error) = self.reload() {
                self.metrics.reload_failures.inc();
                tracing::error!(
                    error = in_words(&error),
                    "the configuration is not accepted; the last good one stays in force"
                );
            }
        }
    }

    fn reload(&mut self) -> Result<(), StandaloneError> {
        let basis = self.files.load().map_err(DaemonError::from)?;
        let (configuration, problems) = cluster(&basis, &self.specs)?;
        for problem in &problems {
            self.metrics.reload_failures.inc();
            tracing::error!(
                node = problem.node,
                error = %problem,
                "the node is not accepted as configured and stays as it was"
            );
        }
        if !alike_but_for_cluster(&basis.settings, &self.settings) {
            tracing::warn!(
                "settings other than nodes, gateways, services and keys have changed: they need a \
                 restart"
            );
        }
        self.specs.clone_from(&configuration.configured.specs);
        tracing::info!(
            nodes = self.specs.len(),
            problems = problems.len(),
            "configuration reloaded"
        );
        self.followers.follow(configuration);
        Ok(())
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
