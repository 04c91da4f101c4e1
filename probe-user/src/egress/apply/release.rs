//! An address on its way off the node.

use std::time::{Duration, Instant};

/// A removal that failed is tried again after this.
pub(super) const RETRY: Duration = Duration::from_secs(1);

/// An address that has to go.
#[derive(Clone, Debug)]
pub(super) struct Release {
    /// It could not be taken off, as far as this round has come.
    pub(super) stuck: bool,
    pub(super) error: Option<String>,
    pub(super) again: Option<Instant>,
}

impl Release {
    pub(super) fn failed(now: Instant, error: String) -> Self {
        Self {
            stuck: true,
            error: Some(error),
            again: Some(now + RETRY),
        }
    }
}
