//! What can be known of egress IPs, and done about them, without the agent's task.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use serde::Serialize;

use super::apply::{Observed, Policy, Ruleset};
use super::net::{NetError, conntrack, links, nft, policy, sysctl};
use super::record::{Record, RecordError};

/// Why egress IPs could not be looked at or removed.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// No netlink socket.
    #[error("cannot open a netlink socket for addresses")]
    Netlink(#[source] std::io::Error),
    /// The record cannot be read or removed.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The kernel refuses.
    #[error("cannot reach the node's egress IPs")]
    Net(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl From<NetError> for OfflineError {
    fn from(error: NetError) -> Self {
        Self::Net(Box::new(error))
    }
}

/// An egress IP as it is found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Found {
    /// The interfaces that have it; none: it is not on the node, though it should be.
    pub interfaces: Vec<String>,
    /// The gateway to which it belongs; `None`: it should not be on the node any more.
    pub gateway: Option<String>,
    /// Whose traffic leaves from it.
    pub sources: Vec<String>,
}

/// What was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Egress IPs, each with the interface that had it.
    pub addresses: Vec<(IpAddr, String)>,
    /// Sysctls that were put back.
    pub sysctls: Vec<String>,
}

/// Every egress IP that is on the node or was recorded for it. Needs a tokio runtime.
///
/// # Errors
/// See [`OfflineError`].
pub async fn found(state_file: &Path) -> Result<BTreeMap<IpAddr, Found>, OfflineError> {
    let record = Record::read(state_file)?.unwrap_or_default();
    let (_, observed) = observe(&record).await?;
    let mut all: BTreeMap<_, Found> = BTreeMap::new();
    for egress_ip in record.desired.iter().flat_map(|desired| &desired.addresses) {
        let found = all.entry(egress_ip.address).or_default();
        found.gateway = Some(egress_ip.gateway.clone());
        found.sources = egress_ip.sources.iter().map(ToString::to_string).collect();
    }
    for present in observed.addresses.iter().filter(|it| it.ours) {
        let found = all.entry(present.address).or_default();
        found.interfaces.push(name(&observed, present.link));
    }
    Ok(all)
}

/// Takes every egress IP off the node, with its rules and flows, puts sysctls back and removes the
/// record. Needs a tokio runtime; no agent may be running.
///
/// # Errors
/// See [`OfflineError`]. What was removed until then stays removed.
pub async fn remove(state_file: &Path) -> Result<Removed, OfflineError> {
    let mut record = Record::read(state_file)?.unwrap_or_default();
    let (route, observed) = observe(&record).await?;
    let ours: Vec<_> = observed.addresses.iter().filter(|it| it.ours).collect();
    if !ours.is_empty() || record.desired.is_some() {
        nft::replace(&Ruleset::default())?;
        policy::replace(&route, &Policy::default()).await?;
    }
    let mut removed = Removed::default();
    for present in ours {
        links::remove(&route, present.address, present.link).await?;
        conntrack::flush(present.address)?;
        let name = name(&observed, present.link);
        removed.addresses.push((present.address, name));
    }
    removed.sysctls = record.sysctls.keys().cloned().collect();
    sysctl::restore(&mut record.sysctls)?;
    Record::delete(state_file)?;
    Ok(removed)
}

async fn observe(record: &Record) -> Result<(rtnetlink::Handle, Observed), OfflineError> {
    let (connection, route, _) = rtnetlink::new_connection().map_err(OfflineError::Netlink)?;
    // Ends with the last handle.
    tokio::spawn(connection);
    let observed = links::observe(&route, &record.added).await?;
    Ok((route, observed))
}

fn name(observed: &Observed, link: u32) -> String {
    let link = observed.link(link);
    link.map_or_else(String::new, |link| link.name.clone())
}
