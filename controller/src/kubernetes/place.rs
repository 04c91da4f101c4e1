//! Where in the cluster this controller is, and what it is called.

use std::fs;
use std::io;

use nix::unistd::gethostname;

use crate::daemon::KubernetesSettings;

/// Where a Pod finds the namespace of its service account.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Why that is not known.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// No namespace is given.
    #[error(
        "setting `kubernetes.namespace` is needed outside of a Pod: cannot read {NAMESPACE_FILE}"
    )]
    Namespace(#[source] io::Error),
    /// The host has no name.
    #[error("setting `kubernetes.identity` is needed: gethostname")]
    HostName(#[source] nix::Error),
    /// The system gives no random numbers.
    #[error("cannot choose an identity of its own: getrandom: {0}")]
    Random(getrandom::Error),
}

/// Where this controller is.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Where Lease and record are.
    pub(super) namespace: String,
    /// What this process is called in the Lease: no other one ever is.
    pub(super) identity: String,
}

impl Place {
    pub(super) fn find(settings: &KubernetesSettings) -> Result<Self, PlaceError> {
        let namespace = match &settings.namespace {
            Some(namespace) => namespace.clone(),
            None => {
                let text = fs::read_to_string(NAMESPACE_FILE).map_err(PlaceError::Namespace)?;
                text.trim().to_owned()
            }
        };
        let name = match &settings.identity {
            Some(identity) => identity.clone(),
            None => {
                let name = gethostname().map_err(PlaceError::HostName)?;
                name.to_string_lossy().into_owned()
            }
        };
        // A container that starts again in the same Pod does not have the Lease of the one before.
        let process = getrandom::u32().map_err(PlaceError::Random)?;
        Ok(Self {
            namespace,
            identity: format!("{name}_{process:08x}"),
        })
    }
}
