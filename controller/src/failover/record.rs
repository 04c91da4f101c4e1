//! What survives a controller.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use probe_user::egress::Claim;
use serde::{Deserialize, Serialize};

use super::{Cause, Roster};
use crate::api::Timestamp;

/// All assignments. Nothing is told to an agent before the record that says so is durable, and
/// what was recorded counts as told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Grows by one with each record.
    pub version: u64,
    /// Of the controller that wrote it; each start of a controller claims the next one.
    pub term: u32,
    /// Every egress IP that is or was assigned.
    pub addresses: BTreeMap<IpAddr, AddressRecord>,
    /// The assignment epoch of each node, as of which it may have been told.
    pub epochs: BTreeMap<String, u64>,
    /// Of each node, the oldest applied epoch for which its lease is extended; none: 0.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub floors: BTreeMap<String, u64>,
    /// The longest lease that may be running, ms; 0: none is.
    #[serde(default)]
    pub lease_ms: u64,
    /// The witnesses, and those before them as long as their votes may count somewhere, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rosters: Vec<Roster>,
    /// Nodes that are drained on purpose.
    #[serde(default)]
    pub drained: BTreeSet<String>,
    /// Where the agent of each node with an epoch is reached: one that is not configured any more
    /// is told until it has released everything.
    #[serde(default)]
    pub reach: BTreeMap<String, Vec<IpAddr>>,
    /// What became of nodes that keep falling.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub damping: BTreeMap<String, DampingRecord>,
}

/// What one node's falls made of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DampingRecord {
    /// When it fell lately.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub falls: Vec<Timestamp>,
    /// How long it must stand to be released, ms; `None`: it is not damped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_ms: Option<u64>,
    /// How long it last had to stand, ms, and when that ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released: Option<(u64, Timestamp)>,
}

/// Who owns an egress IP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressRecord {
    /// The gateway that it belongs to.
    pub gateway: String,
    /// The node; `None`: unassigned.
    pub owner: Option<String>,
    /// Why the owner is to release it, if it is; until it has, it may still hold the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub releasing: Option<Cause>,
    /// How the owner claims it.
    pub claim: Claim,
    /// Since when it is so.
    pub since: Timestamp,
    /// Why it left its last owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// The node that it was moved away from, and goes back to if that is wished for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
}
