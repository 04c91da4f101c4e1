//! Whether an address leaves its owner, and how far that has come.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use super::Planner;
use super::seating::Seating;
use super::state::{Address, Leaving, Node, Stage};
use crate::failover::{Cause, Event, Output};
use crate::health::State;

/// How an owner lets go of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Release {
    /// Its agent is asked to, and confirms.
    Ask,
    /// It is gone: nobody can be asked.
    AtOnce,
    /// Not now.
    Wait(Wait),
}

/// Why a move is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// The owner's agent is silent, its dataplane is not: it goes on serving.
    AgentSilent,
    /// The owner's state is not known yet.
    Undecided,
    /// Too many nodes were lost at once.
    Held,
}

/// The next step for one address.
pub(super) enum Step {
    /// Its owner is to release it.
    Revoke(Arc<str>, Cause),
    /// It has left its owner, safely.
    Part(Arc<str>, Cause),
    /// It has no owner, and may get one.
    Place,
}

impl Planner {
    /// What is to be done about an address, if anything.
    pub(super) fn next_step(
        &self,
        now: Instant,
        ip: IpAddr,
        seating: &mut Seating,
    ) -> Option<Step> {
        let address = self.addresses.get(&ip)?;
        let Some(owner) = &address.owner else {
            let settles_at = seating.of(self, &address.gateway).settles_at;
            return settles_at.is_none_or(|at| at <= now).then_some(Step::Place);
        };
        let release = self.release(owner);
        if let Stage::Leaving(Leaving { cause, .. }) = address.stage {
            let safe = self.is_gone(now, address) || self.has_released(owner, ip);
            return safe.then(|| Step::Part(owner.clone(), cause));
        }
        let cause = self.cause(now, address)?;
        match release {
            Release::AtOnce if self.leases.is_fenced() => Some(Step::Revoke(owner.clone(), cause)),
            Release::AtOnce => Some(Step::Part(owner.clone(), cause)),
            Release::Ask if cause.needs_target() => {
                let seats = &mut seating.of(self, &address.gateway).seats;
                let wish = address.home.as_deref().filter(|_| cause == Cause::Failback);
                let found = seats.reserve(owner, wish);
                found.then(|| Step::Revoke(owner.clone(), cause))
            }
            Release::Ask => Some(Step::Revoke(owner.clone(), cause)),
            // Nobody waits for it: whenever its agent is back is soon enough, and not too soon.
            Release::Wait(_) if cause == Cause::Withdrawn => {
                Some(Step::Revoke(owner.clone(), cause))
            }
            Release::Wait(_) => None,
        }
    }

    /// Why an address has to leave its owner, if it has to.
    pub(super) fn cause(&self, now: Instant, address: &Address) -> Option<Cause> {
        let owner = address.owner.as_ref()?;
        let Some(node) = self.nodes.get(owner).filter(|node| node.present) else {
            return Some(Cause::Deleted);
        };
        let candidates = self.candidates.get(&address.gateway);
        if address.withdrawn {
            Some(Cause::Withdrawn)
        } else if node.state == State::Unreachable || self.is_silenced(owner, node) {
            Some(Cause::Unreachable)
        } else if candidates.is_none_or(|candidates| !candidates.contains(owner)) {
            Some(Cause::Unselected)
        } else if node.drained {
            Some(Cause::Drained)
        } else {
            let goes_home = match &address.stage {
                Stage::Settled => true,
                Stage::Leaving(Leaving { cause, .. }) => *cause == Cause::Failback,
                Stage::Arriving(_) => false,
            };
            let is_due = |at| at <= now;
            let back = goes_home && self.failback_at(address).is_some_and(is_due);
            back.then_some(Cause::Failback)
        }
    }

    /// When an address goes back to where it came from, as things are.
    pub(super) fn failback_at(&self, address: &Address) -> Option<Instant> {
        let home = address
            .home
            .as_ref()
            .filter(|home| address.owner.as_ref() != Some(home))?;
        let node = self.nodes.get(home).filter(|node| node.is_eligible())?;
        Some(node.changed + self.settings.failback?)
    }

    /// How an owner lets go.
    pub(super) fn release(&self, owner: &str) -> Release {
        let Some(node) = self.nodes.get(owner).filter(|node| node.present) else {
            return Release::AtOnce;
        };
        match node.state {
            // Whoever drains a node that is not heard says that it is down: no need to wonder.
            State::Unreachable if self.guard.is_holding() && !node.drained => {
                Release::Wait(Wait::Held)
            }
            State::Unreachable => Release::AtOnce,
            State::Available => Release::Ask,
            State::Unavailable if self.is_silenced(owner, node) => Release::AtOnce,
            State::Unavailable => Release::Wait(Wait::AgentSilent),
            State::Unknown => Release::Wait(Wait::Undecided),
        }
    }

    /// Whether a node's agent is silent, and was not told what it has to apply before its lease is
    /// extended again: its dataplane answers, but serves nobody.
    fn is_silenced(&self, name: &str, node: &Node) -> bool {
        node.state == State::Unavailable && self.leases.bars(name, node.confirmed)
    }

    /// Addresses stay with owners that they had to leave and need not leave any more, as long as nobody
    /// else can have them: the move is aborted.
    ///
    /// The floor of such an owner stays raised. So its lease is extended only once its agent has
    /// applied an epoch that it is given now, and whoever could not be told that is not spared: nor is
    /// who has fallen too often.
    pub(super) fn keep_addresses(&mut self, now: Instant) {
        let stays =
            |(ip, address): (&IpAddr, &Address)| self.may_stay(now, *ip, address).then_some(*ip);
        let staying: Vec<IpAddr> = self.addresses.iter().filter_map(stays).collect();
        for ip in staying {
            if let Some(address) = self.addresses.get_mut(&ip)
                && let Some(owner) = address.stay()
            {
                self.stale.insert(owner.clone());
                self.outputs.push_back(Output::Event(Event::Aborted {
                    gateway: address.gateway.clone(),
                    address: ip,
                    node: owner,
                }));
            }
        }
    }

    fn may_stay(&self, now: Instant, ip: IpAddr, address: &Address) -> bool {
        let (Stage::Leaving(_), Some(owner)) = (&address.stage, &address.owner) else {
            return false;
        };
        let is_fit = self.nodes.get(owner).is_some_and(Node::is_eligible);
        let cause = self.cause(now, address);
        is_fit && cause.is_none() && !self.has_released(owner, ip)
    }

    /// Whether the owner of a leaving address cannot use it any more, whatever its agent says.
    fn is_gone(&self, now: Instant, address: &Address) -> bool {
        let release = address.owner.as_deref().map(|owner| self.release(owner));
        match self.leases.is_fenced() {
            false => release == Some(Release::AtOnce),
            true => {
                let is_over = self.safe_at(address).is_some_and(|at| at <= now);
                is_over && release != Some(Release::Wait(Wait::Held))
            }
        }
    }

    /// Whether the owner's agent has confirmed that it does not hold the address.
    fn has_released(&self, owner: &str, ip: IpAddr) -> bool {
        let confirmed = |node: &Node| {
            node.told == node.epoch && node.confirmed >= node.epoch && !node.leftovers.contains(&ip)
        };
        self.nodes.get(owner).is_none_or(confirmed)
    }
}
