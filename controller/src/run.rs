//! `pulsepath-controller run`.

use probe_user::logging;

use crate::daemon::{DaemonError, Files, Options};
use crate::kubernetes::{self, KubernetesError};
use crate::standalone::{self, StandaloneError};

/// What is logged. The client of the API server repeats at each attempt what is reported anyway.
const FILTER: &str = "info,kube_client=off";

/// Why the controller did not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// What any controller does.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// What it does in a cluster.
    #[error(transparent)]
    Kubernetes(#[from] KubernetesError),
    /// What it does by its files.
    #[error(transparent)]
    Standalone(#[from] StandaloneError),
}

/// Runs a controller until it is told to stop (SIGTERM, SIGINT).
///
/// # Errors
///
/// If it cannot start, or a part without which it is worth nothing fails.
pub async fn run(options: Options) -> Result<(), RunError> {
    let (files, basis) = Files::open(options).map_err(DaemonError::from)?;
    logging::init(basis.settings.log.format, FILTER).map_err(DaemonError::from)?;
    match basis.settings.kubernetes.enabled {
        true => kubernetes::run(files, basis).await?,
        false => standalone::run(files, basis).await?,
    }
    Ok(())
}
