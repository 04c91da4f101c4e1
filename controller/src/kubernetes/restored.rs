//! The nodes' states as an earlier controller wrote them.

use std::collections::HashMap;
use std::time::UNIX_EPOCH;

use kube::ResourceExt as _;

use super::resources::NodeHealth;
use crate::api::{State, Timestamp};
use crate::monitor::Record;

/// What is restored from the objects, by node.
pub(super) fn restored(objects: &[NodeHealth]) -> HashMap<String, Record> {
    let record = |object: &NodeHealth| {
        let status = object.status.as_ref()?;
        if status.state == State::Unknown {
            return None;
        }
        let Timestamp(since) = status.since.unwrap_or(Timestamp(UNIX_EPOCH));
        let incarnation = status.incarnation.as_ref();
        let record = Record {
            state: status.state,
            reason: status.reason?,
            since,
            incarnation: incarnation.and_then(|text| u64::from_str_radix(text, 16).ok()),
        };
        Some((object.name_any(), record))
    };
    objects.iter().filter_map(record).collect()
}
