//! Makes keys.

use std::path::PathBuf;

use probe_user::keys::{ClusterKeys, KeyError};

/// Where keys are unless said otherwise.
const CLUSTER_KEY: &str = "/etc/pulsepath/cluster.key";

/// Which key to make, and where to put it.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Make the key of the node with this name, rather than a new cluster key
    #[arg(long, value_name = "NAME", requires = "out")]
    pub node: Option<String>,
    /// The cluster key from which a node's key is derived
    #[arg(long, value_name = "FILE", default_value = CLUSTER_KEY)]
    pub cluster_key: PathBuf,
    /// The new file, of mode 0600; one that exists is never touched [default for a cluster key:
    /// /etc/pulsepath/cluster.key]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Id of a new cluster key; keys that are valid at the same time need different ones
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "node")]
    pub id: u16,
}

/// Makes a key, and returns where it is.
///
/// # Errors
///
/// Names the file that cannot be read or written.
pub fn keygen(options: Options) -> Result<PathBuf, KeyError> {
    let out = options.out.unwrap_or_else(|| CLUSTER_KEY.into());
    match options.node {
        Some(node) => ClusterKeys::read(&options.cluster_key)?
            .node_keys(&node)
            .write_new(&out)?,
        None => ClusterKeys::generate(options.id)?.write_new(&out)?,
    }
    Ok(out)
}
