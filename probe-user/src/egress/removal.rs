//! Taking everything off the node again.

use std::net::IpAddr;
use std::path::Path;

use super::apply::Ruleset;
use super::net::{NetError, conntrack, links, nft, sysctl};
use super::record::{Record, RecordError};

/// Why not everything could be removed.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    /// No netlink socket.
    #[error("cannot open a netlink socket for addresses")]
    Netlink(#[source] std::io::Error),
    /// The record cannot be read or removed.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The kernel refuses.
    #[error("cannot remove the node's egress IPs")]
    Net(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl From<NetError> for RemoveError {
    fn from(error: NetError) -> Self {
        Self::Net(Box::new(error))
    }
}

/// What was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Egress IPs, each with the interface that had it.
    pub addresses: Vec<(IpAddr, String)>,
    /// Sysctls that were put back.
    pub sysctls: Vec<String>,
}

/// Takes every egress IP off the node, with its rules and flows, puts sysctls back and removes the
/// record. Needs a tokio runtime; no agent may be running.
///
/// # Errors
/// See [`RemoveError`]. What was removed until then stays removed.
pub async fn remove(state_file: &Path) -> Result<Removed, RemoveError> {
    let mut record = Record::read(state_file)?.unwrap_or_default();
    let (connection, route, _) = rtnetlink::new_connection().map_err(RemoveError::Netlink)?;
    let connection = tokio::spawn(connection);
    let observed = links::observe(&route, &record.added).await?;
    let ours: Vec<_> = observed.addresses.iter().filter(|it| it.ours).collect();
    if !ours.is_empty() || record.desired.is_some() {
        nft::replace(&Ruleset::default())?;
    }
    let mut removed = Removed::default();
    for present in ours {
        links::remove(&route, present.address, present.link).await?;
        conntrack::flush(present.address)?;
        let link = observed.link(present.link);
        let name = link.map_or_else(String::new, |link| link.name.clone());
        removed.addresses.push((present.address, name));
    }
    removed.sysctls = record.sysctls.keys().cloned().collect();
    sysctl::restore(&mut record.sysctls)?;
    Record::delete(state_file)?;
    connection.abort();
    Ok(removed)
}
