//! Replaces the cluster key of a running cluster, in two steps.
//!
//! The first adds the next key to the file. The controller that follows it gives both keys to every
//! node, and probes with the next one wherever a node has confirmed it. The second step takes the old
//! key away. It is not taken by itself: the file may have copies, which only people know of, and whoever
//! does not have the next key hears nothing from then on.

use std::path::{Path, PathBuf};

use probe_user::keys::{ClusterKeys, KeyError};

use crate::api::NodeList;
use crate::client::{Controller, ControllerOptions};

/// So many names are enough to show what is wrong.
const MAX_NAMES: usize = 8;

/// Why a rotation is not finished.
#[derive(Debug, thiserror::Error)]
pub enum RotationError {
    /// The key file cannot be read or written.
    #[error(transparent)]
    File(#[from] KeyError),
    /// This step's turn has not come.
    #[error("key file {}: {source}", .path.display())]
    Turn {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: KeyError,
    },
    /// Nobody says which nodes have the next key.
    #[error("{0:#}: it has to say which nodes have the next key (`--force` goes without)")]
    Controller(anyhow::Error),
    /// The controller has not read this file.
    #[error(
        "the controller at {controller} does not run with the keys of {}: is it the one that it reads \
         (`cluster_key_file`), and does its log say why not?", .path.display()
    )]
    OtherKeys {
        /// The file.
        path: PathBuf,
        /// The controller's address.
        controller: String,
    },
    /// Nodes that could not be probed any more.
    #[error(
        "{nodes} not confirmed key {next} yet (`pulsepath status` says why). A node that is down gets \
         it over the control channel when it is back: `--force` does not wait for it"
    )]
    Missing {
        /// The nodes, and the verb.
        nodes: String,
        /// The id of the key.
        next: u16,
    },
}

/// Adds the next key to the file.
pub(super) fn begin(file: &Path) -> Result<(), RotationError> {
    let mut keys = ClusterKeys::read(file)?;
    keys.begin_rotation().map_err(|source| turn(file, source))?;
    Ok(keys.replace(file)?)
}

/// Takes the old key out of the file, if the controller says that no node needs it; without one: at
/// once.
pub(super) async fn finish(
    file: &Path,
    controller: Option<ControllerOptions>,
) -> Result<(), RotationError> {
    let before = ClusterKeys::read(file)?;
    let mut keys = before.clone();
    keys.finish_rotation()
        .map_err(|source| turn(file, source))?;
    if let Some(options) = controller {
        let controller = Controller::new(options).map_err(RotationError::Controller)?;
        let nodes = controller.nodes().await;
        let nodes = nodes.map_err(RotationError::Controller)?;
        if nodes
            .nodes
            .iter()
            .any(|node| node.keys.valid != before.ids())
        {
            return Err(RotationError::OtherKeys {
                path: file.to_owned(),
                controller: controller.url().to_string(),
            });
        }
        check_confirmed(&nodes, keys.ids()[0])?;
    }
    Ok(keys.replace(file)?)
}

fn turn(file: &Path, source: KeyError) -> RotationError {
    RotationError::Turn {
        path: file.to_owned(),
        source,
    }
}

fn check_confirmed(list: &NodeList, next: u16) -> Result<(), RotationError> {
    let missing = list.nodes.iter();
    let missing = missing.filter(|node| !node.keys.confirmed.contains(&next));
    let names: Vec<&str> = missing.map(|node| node.name.as_str()).collect();
    let shown = names[..names.len().min(MAX_NAMES)].join(", ");
    let nodes = match names.len() {
        0 => return Ok(()),
        1 => format!("node {shown} has"),
        2..=MAX_NAMES => format!("nodes {shown} have"),
        more => format!("nodes {shown} and {} others have", more - MAX_NAMES),
    };
    Err(RotationError::Missing { nodes, next })
}
