//! What deserves attention about nodes, as far as the planner knows.

use std::collections::BTreeMap;
use std::sync::Arc;

use probe_user::egress::AddressState;

use super::Planner;
use crate::api;

impl Planner {
    /// What deserves attention, by node; nodes about which nothing does are left out.
    pub fn warnings(&self) -> BTreeMap<Arc<str>, Vec<api::Condition>> {
        let mut warnings: BTreeMap<Arc<str>, Vec<api::Condition>> = BTreeMap::new();
        let mut warn = |node: &Arc<str>, name: &str, message: String| {
            let name = name.to_owned();
            let all = warnings.entry(node.clone()).or_default();
            match all.iter_mut().find(|known| known.name == name) {
                Some(known) => known.message = format!("{}; {message}", known.message),
                None => all.push(api::Condition { name, message }),
            }
        };
        for (name, node) in self.nodes.iter().filter(|(_, node)| node.present) {
            if node.drained {
                warn(name, "Drained", "it gets no egress IP".to_owned());
            }
            if node.damping.hold().is_some() {
                let message = "it falls too often, and gets no egress IP for now";
                warn(name, "Damped", message.to_owned());
            }
            for reason in &node.not_fenced {
                warn(name, "NotFenced", reason.clone());
            }
        }
        for (ip, address) in &self.addresses {
            let (Some(owner), Some(state)) = (&address.owner, &address.report) else {
                continue;
            };
            match state {
                AddressState::Duplicate { .. } => {
                    warn(owner, "Duplicate", format!("another host answers for {ip}"));
                }
                AddressState::Failed { error } => {
                    warn(owner, "EgressFailed", format!("{ip}: {error}"));
                }
                AddressState::Configured | AddressState::Announced => {}
            }
        }
        warnings
    }
}
