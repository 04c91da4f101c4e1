//! The daemon.

use probe_user::settings::Invalid;
use tokio::sync::{mpsc, watch};

use super::keeper::StateKeeper;
use super::reload::{Reloader, cluster};
use super::{Kept, NodesError, Problem, StateFile, StateFileError};
use crate::daemon::{
    Basis, DaemonError, Files, Herald, Mandate, Restored, Role, Signals, Special, Wiring,
};
use crate::tenure::Tenure;

/// Why the controller did not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum StandaloneError {
    /// What any controller does.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// The nodes in the configuration.
    #[error(transparent)]
    Nodes(#[from] NodesError),
    /// A node in the configuration.
    #[error(transparent)]
    Node(#[from] Problem),
    /// The gateways in the configuration.
    #[error(transparent)]
    Gateways(#[from] Invalid),
    /// The state file.
    #[error(transparent)]
    StateFile(#[from] StateFileError),
}

/// Runs a controller by its files, of which `basis` was read, until it is told to stop (SIGTERM,
/// SIGINT).
pub(crate) async fn run(files: Files, basis: Basis) -> Result<(), StandaloneError> {
    let (cluster, problems) = cluster(&basis, &[])?;
    if let Some(problem) = problems.into_iter().next() {
        return Err(problem.into());
    }
    let signals = Signals::new()?;
    let file = StateFile::new(basis.settings.state_file());
    let Kept {
        nodes,
        assignments,
        picks,
    } = file.read()?;
    let specs = cluster.configured.specs.clone();
    let wiring = Wiring::start(&basis.settings, Restored { nodes, picks }, specs).await?;
    let (keeper, recorder) = StateKeeper::spawn(file, &wiring, &assignments);
    let (roles, role) = mpsc::unbounded_channel();
    let special = Special {
        roles: role,
        unrecorded: keeper.unrecorded(),
        herald: Herald::default(),
        leader: watch::channel(None).1,
    };
    let (mut controller, followers) = wiring.finish(special).await?;
    let metrics = controller.metrics.clone();
    let reloader = Reloader::new(files, basis.settings, cluster, followers, metrics);
    controller.tasks.spawn(reloader.run(signals.hangup));
    // It is the only one.
    let mandate = Mandate {
        record: assignments,
        recorder,
        tenure: Tenure::endless(),
    };
    // The task that hears it has been started.
    let _ = roles.send(Role::Leader(Box::new(mandate)));
    Ok(controller.run(signals.stop, keeper.finish()).await?)
}
