//! Who is registered, and whom a node interests.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use tokio::sync::Notify;

use super::Interest;

/// Nodes for which the interest may have changed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Affected {
    All,
    Nodes(BTreeSet<String>),
}

#[derive(Default)]
pub(super) struct Register {
    pub(super) next: u64,
    /// How often anyone has been told of a node.
    pub(super) version: u64,
    pub(super) consumers: BTreeMap<u64, Entry>,
    /// How many are interested in all nodes.
    pub(super) all: usize,
    /// How many are interested in a node by name.
    pub(super) named: HashMap<String, usize>,
    pub(super) affected: Option<Affected>,
}

pub(super) struct Entry {
    pub(super) interest: Interest,
    pub(super) changed: Arc<Notify>,
    /// Which nodes changed, if the consumer wants to know.
    pub(super) names: Option<BTreeSet<String>>,
}

impl Register {
    /// Somebody is interested.
    pub(super) fn count(&mut self, interest: &Interest) {
        match interest {
            Interest::All => {
                self.all += 1;
                if self.all == 1 {
                    self.affected = Some(Affected::All);
                }
            }
            Interest::Nodes(names) => {
                for name in names {
                    let count = self.named.entry(name.clone()).or_default();
                    *count += 1;
                    if *count == 1 {
                        self.affect(name);
                    }
                }
            }
        }
    }

    /// Somebody is interested no more.
    pub(super) fn discount(&mut self, interest: &Interest) {
        match interest {
            Interest::All => {
                self.all -= 1;
                if self.all == 0 {
                    self.affected = Some(Affected::All);
                }
            }
            Interest::Nodes(names) => {
                for name in names {
                    let Some(count) = self.named.get_mut(name) else {
                        continue;
                    };
                    *count -= 1;
                    if *count == 0 {
                        self.named.remove(name);
                        self.affect(name);
                    }
                }
            }
        }
    }

    fn affect(&mut self, name: &str) {
        if self.all > 0 {
            return;
        }
        match &mut self.affected {
            Some(Affected::All) => {}
            Some(Affected::Nodes(names)) => {
                names.insert(name.to_owned());
            }
            None => self.affected = Some(Affected::Nodes(BTreeSet::from([name.to_owned()]))),
        }
    }
}
