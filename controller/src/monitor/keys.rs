//! With which keys nodes are probed while keys are rotated.
//!
//! A probe under a key that the node does not hold is lost. So the next key signs a node's probes only
//! once its agent has said that the node holds it; replies under either key are accepted all the time.

use probe_user::keys::{NodeKey, NodeKeys};

use super::Reading;
use super::core::{Monitor, Slot};
use crate::api;

/// A node's keys, as far as people may know them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyView {
    /// Ids of those that it shall have: current, and in a rotation next.
    pub valid: Vec<u16>,
    /// Ids of those that its agent has confirmed.
    pub confirmed: Vec<u16>,
    /// Why it did not confirm the last ones that it was given, if it did not.
    pub problem: Option<String>,
}

impl KeyView {
    pub(super) fn to_api(&self) -> api::Keys {
        api::Keys {
            valid: self.valid.clone(),
            confirmed: self.confirmed.clone(),
        }
    }

    /// What a rotation waits for, if it waits for this node.
    pub(super) fn missing(&self) -> Option<String> {
        let [_, next] = self.valid.as_slice() else {
            return None;
        };
        let why = self.problem.as_ref();
        let why = why.map_or(String::new(), |why| format!(": {why}"));
        (!self.confirmed.contains(next))
            .then(|| format!("it has not confirmed probe key {next}{why}"))
    }
}

impl Slot {
    pub(super) fn show_keys(&self) {
        let keys = &mut self.cell.lock().keys;
        keys.valid = ids(self.spec.keys.all());
        keys.confirmed = ids(&self.held);
    }
}

impl Monitor {
    /// Takes note of the keys that a node holds, as its agent says, or why that is not known.
    pub fn note_keys(&mut self, now: Reading, node: &str, held: Result<Vec<NodeKey>, String>) {
        let Some(&index) = self.names.get(node) else {
            return;
        };
        let Some(slot) = self.slot_mut(index) else {
            return;
        };
        slot.cell.lock().keys.problem = held.as_ref().err().cloned();
        let Ok(held) = held else { return };
        let signs = |slot: &Slot| slot.spec.keys.signing_as_held(&slot.held);
        let before: NodeKeys = signs(slot);
        slot.held = held;
        slot.show_keys();
        if slot.monitored && before != signs(slot) {
            self.probe(now, index);
        }
    }
}

fn ids(keys: &[NodeKey]) -> Vec<u16> {
    keys.iter().map(|key| key.id).collect()
}
