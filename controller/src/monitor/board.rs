//! The present state of everything, for readers on other threads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Instant, SystemTime};

use probe_user::session::{ProberStats, SocketStats};

use super::NodeView;
use crate::health::State;

/// What is known of every node, and of the prober.
///
/// The monitor writes; anyone may read, at any time, without being able to hold it up for longer
/// than it takes to copy one node's view.
#[derive(Debug, Default)]
pub struct Board {
    nodes: RwLock<BTreeMap<String, Cell>>,
    prober: Mutex<(ProberStats, SocketStats)>,
}

/// What is known of a node that decisions are made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Its name.
    pub node: String,
    /// Its state.
    pub state: State,
    /// Since when it is in it.
    pub since: SystemTime,
    /// When it was last heard, by whomever.
    pub heard: Option<Instant>,
    /// The controller does not hear it, but others do, or its tunnels.
    pub only_others: bool,
    /// Its incarnation, as last heard or recorded.
    pub incarnation: Option<u64>,
}

/// A node's view, shared between the monitor and the board.
#[derive(Clone, Debug)]
pub(super) struct Cell(Arc<Mutex<NodeView>>);

impl Cell {
    pub(super) fn new(view: NodeView) -> Self {
        Self(Arc::new(Mutex::new(view)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, NodeView> {
        lock(&self.0)
    }
}

impl Board {
    /// Every node, ordered by name.
    pub fn nodes(&self) -> Vec<NodeView> {
        let cells: Vec<Cell> = self
            .nodes
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .cloned()
            .collect();
        cells.iter().map(|cell| cell.lock().clone()).collect()
    }

    /// The name of every node.
    pub fn names(&self) -> BTreeSet<String> {
        let nodes = self.nodes.read().unwrap_or_else(PoisonError::into_inner);
        nodes.keys().cloned().collect()
    }

    /// The node with this name.
    pub fn node(&self, name: &str) -> Option<NodeView> {
        self.cell(name).map(|cell| cell.lock().clone())
    }

    /// The node's state; UNKNOWN if there is no such node.
    pub fn state(&self, name: &str) -> State {
        self.cell(name)
            .map_or(State::Unknown, |cell| cell.lock().state)
    }

    /// What decisions about every node are made from.
    pub fn sightings(&self) -> Vec<Sighting> {
        let nodes = self.nodes.read().unwrap_or_else(PoisonError::into_inner);
        let observe = |(name, cell): (&String, &Cell)| {
            let view = cell.lock();
            Sighting {
                node: name.clone(),
                state: view.state,
                since: view.since,
                heard: view.heard.max(view.witnessed),
                only_others: view.path_down || view.kept_until.is_some(),
                incarnation: view.incarnation,
            }
        };
        nodes.iter().map(observe).collect()
    }

    /// What the prober and its sockets have counted.
    pub fn prober(&self) -> (ProberStats, SocketStats) {
        *lock(&self.prober)
    }

    pub(super) fn set_prober(&self, stats: &ProberStats, socket: &SocketStats) {
        *lock(&self.prober) = (*stats, *socket);
    }

    pub(super) fn insert(&self, name: String, cell: Cell) {
        self.nodes
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name, cell);
    }

    pub(super) fn remove(&self, name: &str) {
        self.nodes
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(name);
    }

    fn cell(&self, name: &str) -> Option<Cell> {
        self.nodes
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .cloned()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Views hold plain values: none is ever half written.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
