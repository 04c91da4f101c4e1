//! What the interface says of services.

use serde::{Deserialize, Serialize};

use super::Timestamp;

/// Every service, and who is picked for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceList {
    /// Ordered by name.
    pub services: Vec<Service>,
}

/// A group of nodes of which one is picked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// Who is picked; absent: no node of the group is AVAILABLE.
    pub node: Option<String>,
    /// When that was decided.
    pub since: Timestamp,
}
