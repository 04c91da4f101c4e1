//! Who may take addresses of which gateway, found out when it is asked for.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use super::Planner;
use super::state::{Address, Node, Stage};
use crate::failover::placement::{Seat, Seats};
use crate::health::State;

/// What one round of decisions knows of gateways' candidates.
#[derive(Debug, Default)]
pub(super) struct Seating(HashMap<String, Room>);

/// One gateway's.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) seats: Seats,
    /// Until when unassigned addresses wait for candidates without a state; `None`: all have one.
    pub(super) settles_at: Option<Instant>,
}

impl Seating {
    pub(super) fn of(&mut self, planner: &Planner, gateway: &str) -> &mut Room {
        let entry = self.0.entry(gateway.to_owned());
        entry.or_insert_with(|| planner.room(gateway))
    }
}

impl Planner {
    pub(super) fn room(&self, gateway: &str) -> Room {
        let (mut size, mut pending) = (0, 0);
        let mut loads: HashMap<&str, usize> = HashMap::new();
        for address in self
            .addresses
            .values()
            .filter(|address| address.gateway == gateway)
        {
            size += usize::from(!address.withdrawn);
            pending += usize::from(is_pending(address));
            if let Some(owner) = &address.owner {
                *loads.entry(owner).or_default() += 1;
            }
        }
        let candidates = || {
            let names = self.candidates.get(gateway).into_iter().flatten();
            names.filter_map(|name| Some((name, self.nodes.get(name)?)))
        };
        let seat = |(name, _): (&Arc<str>, &Node)| {
            let load = loads.get(&**name).copied().unwrap_or_default();
            Seat::new(name.clone(), load)
        };
        let seats = candidates()
            .filter(|(name, node)| node.is_eligible() && self.leases.may_hold(name))
            .map(seat)
            .collect();
        let limit = self
            .gateways
            .get(gateway)
            .and_then(|gateway| gateway.max_per_node);
        let undecided = candidates().filter(|(_, node)| node.state == State::Unknown);
        let settles_at = undecided
            .map(|(_, node)| node.appeared + self.settings.settle)
            .max();
        Room {
            seats: Seats::new(seats, size, limit, pending),
            settles_at,
        }
    }
}

/// Whether it will want a seat.
fn is_pending(address: &Address) -> bool {
    let leaving = matches!(address.stage, Stage::Leaving(..)) || address.owner.is_none();
    leaving && !address.withdrawn
}
