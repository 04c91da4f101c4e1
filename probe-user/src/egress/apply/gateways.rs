//! The gateways whose sources leave from an egress IP or not at all.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::super::types::Gateway;

/// How long sources stay held back on a node that gives up a gateway together with its addresses:
/// their next hop is this node until whoever has the addresses then has announced them.
const PARTING: Duration = Duration::from_secs(5);

/// Gateways of which the node is a candidate, and those of which it was one.
#[derive(Debug, Default)]
pub(super) struct Gateways {
    present: Vec<Gateway>,
    parting: Vec<(Gateway, Instant)>,
}

impl Gateways {
    /// The node is a candidate of these; `held` names the gateways of which it had an address.
    pub(super) fn replace(&mut self, now: Instant, held: BTreeSet<&str>, gateways: &[Gateway]) {
        let stays = |gateway: &Gateway| gateways.iter().any(|it| it.name == gateway.name);
        self.parting.retain(|(gateway, _)| !stays(gateway));
        for gateway in std::mem::replace(&mut self.present, gateways.to_vec()) {
            if held.contains(&*gateway.name) && !stays(&gateway) {
                self.parting.push((gateway, now + PARTING));
            }
        }
    }

    /// All whose sources are held back now.
    pub(super) fn all(&self, now: Instant) -> impl Iterator<Item = &Gateway> {
        let parting = self.parting.iter().filter(move |(_, until)| now < *until);
        self.present
            .iter()
            .chain(parting.map(|(gateway, _)| gateway))
    }

    /// When there will be fewer.
    pub(super) fn next_wake(&self, now: Instant) -> Option<Instant> {
        let ends = self.parting.iter().map(|(_, until)| *until);
        ends.filter(|until| now < *until).min()
    }
}
