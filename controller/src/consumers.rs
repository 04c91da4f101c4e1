//! Who wants to know about which nodes.
//!
//! A consumer registers by name and says which nodes interest it. It is told *that* one of them
//! changed, never what, and asks for the present state then: a slow consumer misses history, never
//! the outcome. Nodes that interest nobody are not probed.

mod register;
mod watcher;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

pub(crate) use self::register::Affected;
use self::register::{Entry, Register};
pub use self::watcher::{Changes, Watcher};
use crate::health::State;
use crate::monitor::Board;

/// Which nodes interest a consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interest {
    /// All that are configured, now or later.
    All,
    /// Those with these names, configured or not.
    Nodes(BTreeSet<String>),
}

/// Everyone who wants to know about nodes. Clones are the same registry.
#[derive(Clone)]
pub struct Consumers {
    shared: Arc<Shared>,
}

struct Shared {
    board: Arc<Board>,
    register: Mutex<Register>,
    /// Wakes the monitor, which has to begin or end probing.
    wake: Box<dyn Fn() + Send + Sync>,
}

impl Consumers {
    /// Nobody yet. Present states come from `board`; `wake` is called, from any thread, whenever
    /// interest changed.
    pub fn new(board: Arc<Board>, wake: impl Fn() + Send + Sync + 'static) -> Self {
        let shared = Shared {
            board,
            register: Mutex::default(),
            wake: Box::new(wake),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Registers a consumer that is interested in no node yet. `name` is for the log.
    pub fn register(&self, name: impl Into<String>) -> Consumer {
        let name = name.into();
        tracing::debug!(consumer = name, "consumer registered");
        let changed = Arc::new(Notify::new());
        let mut register = self.shared.lock();
        let id = register.next;
        register.next += 1;
        let interest = Interest::Nodes(BTreeSet::new());
        register.consumers.insert(
            id,
            Entry {
                interest,
                changed: changed.clone(),
                names: None,
            },
        );
        drop(register);
        Consumer {
            id,
            name,
            changed,
            shared: self.shared.clone(),
        }
    }

    /// Registers a consumer that is told which nodes changed, beginning with all that interest it.
    pub fn watch(&self, name: &str, interest: Interest) -> Watcher {
        Watcher::new(self, name, interest)
    }

    /// The version of the last change. Asked before a state is read, the state includes it.
    pub fn version(&self) -> u64 {
        self.shared.lock().version
    }

    /// Whether anyone is interested in the node.
    pub(crate) fn want(&self, node: &str) -> bool {
        let register = self.shared.lock();
        register.all > 0 || register.named.contains_key(node)
    }

    /// For which nodes the interest may have changed since the last call.
    pub(crate) fn take_affected(&self) -> Option<Affected> {
        self.shared.lock().affected.take()
    }

    /// Tells everyone whom it interests that the node changed.
    pub(crate) fn tell(&self, node: &str) {
        let mut register = self.shared.lock();
        register.version += 1;
        for entry in register.consumers.values_mut() {
            if entry.interest.includes(node) {
                if let Some(names) = &mut entry.names {
                    names.insert(node.to_owned());
                }
                entry.changed.notify_one();
            }
        }
    }
}

impl fmt::Debug for Consumers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.shared.lock().consumers.len();
        f.debug_struct("Consumers")
            .field("count", &count)
            .finish_non_exhaustive()
    }
}

impl Interest {
    fn includes(&self, node: &str) -> bool {
        match self {
            Self::All => true,
            Self::Nodes(names) => names.contains(node),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Register> {
        // Each change below is complete before it could panic.
        self.register.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on the names of nodes that change are noted for the consumer.
    fn note_names(&self, id: u64) {
        if let Some(entry) = self.lock().consumers.get_mut(&id) {
            entry.names = Some(BTreeSet::new());
        }
    }

    /// Adds names to those that are noted.
    fn add_names(&self, id: u64, more: BTreeSet<String>) {
        if let Some(Entry {
            names: Some(names), ..
        }) = self.lock().consumers.get_mut(&id)
        {
            names.extend(more);
        }
    }

    /// Takes the names that are noted.
    fn take_names(&self, id: u64) -> Changes {
        let mut register = self.lock();
        let version = register.version;
        let names = register
            .consumers
            .get_mut(&id)
            .and_then(|entry| entry.names.as_mut());
        Changes {
            nodes: names.map(std::mem::take).unwrap_or_default(),
            version,
        }
    }

    /// Replaces a consumer's interest; `None` deregisters it.
    fn replace(&self, id: u64, interest: Option<Interest>) {
        let mut register = self.lock();
        let Some(entry) = register.consumers.get_mut(&id) else {
            return;
        };
        let after = interest.clone().unwrap_or(Interest::Nodes(BTreeSet::new()));
        let before = std::mem::replace(&mut entry.interest, after);
        if let Some(interest) = &interest {
            register.count(interest);
        } else {
            register.consumers.remove(&id);
        }
        register.discount(&before);
        let affected = register.affected.is_some();
        drop(register);
        if affected {
            (self.wake)();
        }
    }
}

/// A registered consumer; dropping it deregisters.
pub struct Consumer {
    id: u64,
    name: String,
    changed: Arc<Notify>,
    shared: Arc<Shared>,
}

impl Consumer {
    /// Replaces what the consumer is interested in.
    pub fn set_interest(&self, interest: Interest) {
        self.shared.replace(self.id, Some(interest));
    }

    /// Waits until a node of interest has changed since the last time that this returned.
    /// However many changed, it returns once.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The node's present state; UNKNOWN if it is not configured or not monitored.
    pub fn state(&self, node: &str) -> State {
        self.shared.board.state(node)
    }
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        tracing::debug!(consumer = self.name, "consumer deregistered");
        self.shared.replace(self.id, None);
    }
}

#[cfg(test)]
mod tests;
