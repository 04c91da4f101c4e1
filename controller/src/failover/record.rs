//! What survives a controller.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use probe_user::egress::Claim;
use serde::{Deserialize, Serialize};

use super::Cause;
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
    /// Nodes that are drained on purpose.
    #[serde(default)]
    pub drained: BTreeSet<String>,
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
