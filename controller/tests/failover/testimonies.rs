//! Agents that do their duty as witnesses.

use std::collections::BTreeMap;
use std::time::Instant;

use controller::failover::Duty;
use probe_user::channel::{Heard, WitnessReport};

#[derive(Default)]
pub(crate) struct Testimonies {
    /// What each was told last.
    pub(crate) duties: BTreeMap<String, Duty>,
    /// Which memory each has, if it is not its first one.
    pub(crate) memories: BTreeMap<String, u64>,
    /// When all of them last heard each node.
    heard: BTreeMap<String, Instant>,
}

impl Testimonies {
    pub(crate) fn tell(&mut self, node: &str, duty: Option<Duty>) {
        match duty {
            Some(duty) => self.duties.insert(node.to_owned(), duty),
            None => self.duties.remove(node),
        };
    }

    pub(crate) fn told(&self) -> Vec<String> {
        self.duties.keys().cloned().collect()
    }

    pub(crate) fn hear(&mut self, now: Instant, node: &str) {
        self.heard.insert(node.to_owned(), now);
    }

    /// Nobody tells them what the last controller told them.
    pub(crate) fn forget_controller(&mut self) {
        self.duties.clear();
    }

    /// Its instance id: the number in its name, unless it has lost its memory.
    fn instance(&self, node: &str) -> u64 {
        let number = || node.trim_start_matches('n').parse().unwrap();
        self.memories.get(node).copied().unwrap_or_else(number)
    }

    /// What a witness answers, and to which version of its duty.
    pub(crate) fn report(&self, now: Instant, node: &str) -> Option<(u64, WitnessReport)> {
        let duty = self.duties.get(node)?;
        let instance = self.instance(node);
        if duty.instance.is_some_and(|meant| meant != instance) {
            return None;
        }
        let heard = |(node, floor): &(std::sync::Arc<str>, u64)| {
            let heard_ago = self.heard.get(&**node).map(|at| now - *at);
            Heard {
                node: node.to_string(),
                floor: *floor,
                heard_ago,
                // Whoever hears a node votes for it.
                voted_ago: heard_ago,
                ..Heard::default()
            }
        };
        let heard = duty.watched.iter().map(heard).collect();
        Some((duty.version, WitnessReport { instance, heard }))
    }
}
