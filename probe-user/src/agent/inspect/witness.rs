//! The node as a witness of others: what it has been told, and what it has promised.

use std::net::IpAddr;
use std::path::Path;

use anyhow::Result;
use probe_ebpf::wire::NodeId;
use serde::Serialize;

use crate::channel::{Duty, Watched};
use crate::kernel::Stored;
use crate::witness::DutyFile;

/// What a witness goes on with when it restarts.
#[derive(Debug, Serialize)]
pub(super) struct Witness {
    pub(super) instance: String,
    /// The recorded duty; `None`: there is none of this instance.
    pub(super) duty: Option<DutyReport>,
    /// Nodes whose floors are stored, but which it does not probe any more.
    pub(super) former_nodes: usize,
}

/// A duty.
#[derive(Debug, Serialize)]
pub(super) struct DutyReport {
    pub(super) version: u64,
    pub(super) period_ms: u64,
    pub(super) lease_ms: u64,
    pub(super) port: u16,
    pub(super) nodes: Vec<WatchedNode>,
}

/// A node that is probed.
#[derive(Debug, Serialize)]
pub(super) struct WatchedNode {
    pub(super) node: String,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) votes: bool,
    /// No vote for it goes below this epoch.
    pub(super) floor: u64,
}

impl Witness {
    /// Reads the map and the file; `None`: the node has never been a witness.
    pub(super) fn new(directory: &Path, own: NodeId, file: &DutyFile) -> Result<Option<Self>> {
        let stored = Stored::read(directory, own)?;
        if stored.instance == 0 {
            return Ok(None);
        }
        let is_own = |duty: &Duty| duty.instance == Some(stored.instance);
        let duty = file.read()?.filter(is_own);
        let watched = duty.iter().flat_map(|duty| &duty.watched);
        let named = watched.filter(|it| stored.floors.contains_key(&node_id(it)));
        Ok(Some(Self {
            instance: format!("{:016x}", stored.instance),
            former_nodes: stored.floors.len() - named.count(),
            duty: duty.map(|duty| DutyReport::new(duty, &stored)),
        }))
    }
}

impl DutyReport {
    fn new(duty: Duty, stored: &Stored) -> Self {
        let node = |watched: Watched| WatchedNode {
            floor: stored.floors.get(&node_id(&watched)).copied().unwrap_or(0),
            node: watched.node().to_owned(),
            addresses: watched.addresses,
            votes: watched.vote,
        };
        Self {
            version: duty.version,
            period_ms: duty.period.as_millis() as u64,
            lease_ms: duty.lease.as_millis() as u64,
            port: duty.port,
            nodes: duty.watched.into_iter().map(node).collect(),
        }
    }
}

fn node_id(watched: &Watched) -> u64 {
    NodeId::of(watched.node()).0
}
