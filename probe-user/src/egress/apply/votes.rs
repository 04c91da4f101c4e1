//! Whose votes extend the node's lease.

use std::time::Instant;

use super::super::handle::ApplyError;
use super::release::RETRY;
use crate::kernel::WitnessSet;

/// The witness set that shall be in force, and how far that has come.
#[derive(Debug)]
pub(super) struct Votes {
    wanted: WitnessSet,
    /// Version of the set in force.
    version: u64,
    /// Whether the set in force is known to be the one that is wanted. It is not after a restart: an
    /// agent that was killed may have left half a set.
    is_in_force: bool,
    /// When a set that could not be put into force is tried again.
    again: Option<Instant>,
}

impl Votes {
    /// Nothing is wanted yet, and the set of this version is in force.
    pub(super) const fn new(version: u64) -> Self {
        let wanted = WitnessSet {
            version,
            instances: Vec::new(),
        };
        Self {
            wanted,
            version,
            is_in_force: true,
            again: None,
        }
    }

    /// Whether a set is another one than before.
    ///
    /// # Errors
    /// It is older.
    pub(super) fn is_news(&self, set: Option<&WitnessSet>) -> Result<bool, ApplyError> {
        let version = set.map_or(0, |set| set.version);
        if version < self.wanted.version {
            return Err(ApplyError::OlderWitnesses {
                version,
                applied: self.wanted.version,
            });
        }
        Ok(version > self.wanted.version)
    }

    /// This set shall be in force.
    pub(super) fn desire(&mut self, set: Option<&WitnessSet>) {
        self.wanted = set.cloned().unwrap_or_default();
        (self.is_in_force, self.again) = (false, None);
    }

    /// The set to put into force now.
    pub(super) fn plan(&self, now: Instant) -> Option<WitnessSet> {
        let waits = self.is_in_force || self.again.is_some_and(|again| now < again);
        (!waits).then(|| self.wanted.clone())
    }

    /// This set is in force.
    pub(super) fn done(&mut self, set: &WitnessSet) {
        self.version = set.version;
        (self.is_in_force, self.again) = (*set == self.wanted, None);
    }

    /// The wanted set could not be put into force.
    pub(super) fn failed(&mut self, now: Instant) {
        self.again = Some(now + RETRY);
    }

    /// Version of the set in force.
    pub(super) const fn version(&self) -> u64 {
        self.version
    }

    /// Whether the wanted set is in force, or could not be put there.
    pub(super) const fn is_tried(&self) -> bool {
        self.is_in_force || self.again.is_some()
    }

    /// When to try again.
    pub(super) const fn next_wake(&self) -> Option<Instant> {
        self.again
    }
}
