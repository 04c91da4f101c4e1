//! What follows from what is known: which addresses leave, and where they go.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use probe_user::egress::Claim;

use super::Planner;
use super::seating::Seating;
use super::state::{Address, Leaving, Move, Node, Stage};
use crate::clock::Reading;
use crate::failover::guard::{Sign, Verdict};
use crate::failover::lease::Safety;

use crate::failover::{Cause, Event, Output, Phase};
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

/// An address without an owner, and where it would go.
struct Homeless {
    address: IpAddr,
    wish: Option<Arc<str>>,
}

impl Planner {
    /// Decides, unless a record is under way; call it whenever something was handled, and at
    /// [`next_wake`](Self::next_wake).
    pub fn poll(&mut self, now: Reading) {
        if self.recording.is_some() {
            return;
        }
        if self.settings.enabled {
            self.claim();
            self.judge_guard(now.instant);
            self.release_damped(now.instant);
            let mut seating = Seating::default();
            let homeless = self.release_addresses(now, &mut seating);
            self.place(now, &mut seating, homeless);
            self.reappoint(now.instant);
            self.number();
            self.renew(now.instant);
            self.wake = self.find_wake(now.instant);
        }
        self.record(now);
        if self.recording.is_none() {
            self.charge(now.instant);
        }
    }

    fn judge_guard(&mut self, now: Instant) {
        let settings = &self.settings.guard;
        // Whoever drains a node knows of it: its silence is no surprise.
        let counted = |(_, node): &(&Arc<str>, &Node)| {
            node.present && !node.drained && node.state != State::Unknown
        };
        // It is not the controller alone that misses it.
        let witnesses = &self.leases.witnesses;
        let is_missed = |name: &str, at| witnesses.miss(name, at, settings.silence);
        let sign = |(name, node): (&Arc<str>, &Node)| match (node.state, node.fell) {
            (State::Unreachable, Some(at)) if is_missed(name, at) => None,
            (State::Unreachable, Some(at)) => Some(Sign::Fell(at)),
            (State::Unreachable, None) => None,
            _ if now.saturating_duration_since(node.heard) >= settings.silence => {
                Some(Sign::Silent)
            }
            _ => Some(Sign::Alive),
        };
        let signs = self.nodes.iter().filter(counted).filter_map(sign);
        let event = match self.guard.judge(now, signs, settings) {
            None => return,
            Some(Verdict::Held { lost, of }) => Event::Held { lost, of },
            Some(Verdict::Resumed) => Event::Resumed,
        };
        self.leases.witnesses.listen(self.guard.is_holding());
        self.outputs.push_back(Output::Event(event));
    }

    fn release_damped(&mut self, now: Instant) {
        for (name, node) in &mut self.nodes {
            if node.state == State::Available && node.damping.release(now, node.changed) {
                let node = name.clone();
                self.dirty = true;
                self.outputs
                    .push_back(Output::Event(Event::Released { node }));
            }
        }
    }

    /// Takes addresses from owners that lose them; returns those that have no owner now.
    fn release_addresses(&mut self, now: Reading, seating: &mut Seating) -> Vec<Homeless> {
        let mut homeless = Vec::new();
        let ips: Vec<IpAddr> = self.addresses.keys().copied().collect();
        for ip in ips {
            let Some(step) = self.next_step(now.instant, ip, seating) else {
                continue;
            };
            let Some(address) = self.addresses.get_mut(&ip) else {
                continue;
            };
            match step {
                Step::Revoke(owner, cause) => {
                    let from = Some(owner.clone());
                    let step = Move::begin(now.instant, Phase::Revoke, from, Some(cause));
                    address.stage = Stage::Leaving(Leaving {
                        step,
                        cause,
                        epoch: None,
                    });
                    self.stale.insert(owner);
                }
                Step::Part(owner, cause) => {
                    if let Stage::Leaving(Leaving {
                        epoch: Some(epoch), ..
                    }) = address.stage
                    {
                        // The record follows anyway.
                        self.leases.raise(&owner, epoch);
                    }
                    self.stale.extend(address.holder().cloned());
                    address.part(now, owner, cause);
                    self.dirty = true;
                    homeless.extend(self.homeless(ip));
                }
                Step::Place => homeless.extend(self.homeless(ip)),
            }
        }
        homeless
    }

    fn homeless(&self, ip: IpAddr) -> Option<Homeless> {
        let address = self
            .addresses
            .get(&ip)
            .filter(|address| !address.withdrawn)?;
        let failback = address.cause == Some(Cause::Failback);
        let wish = address.home.clone().filter(|_| failback);
        Some(Homeless { address: ip, wish })
    }

    /// What is to be done about an address, if anything.
    fn next_step(&self, now: Instant, ip: IpAddr, seating: &mut Seating) -> Option<Step> {
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
        } else if node.state == State::Unreachable {
            Some(Cause::Unreachable)
        } else if candidates.is_none_or(|candidates| !candidates.contains(owner)) {
            Some(Cause::Unselected)
        } else if node.drained {
            Some(Cause::Drained)
        } else {
            let settled = matches!(address.stage, Stage::Settled);
            let back = settled && self.failback_at(address).is_some_and(|at| at <= now);
            back.then_some(Cause::Failback)
        }
    }

    /// When an address goes back to where it came from, as things are.
    fn failback_at(&self, address: &Address) -> Option<Instant> {
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
            State::Unavailable => Release::Wait(Wait::AgentSilent),
            State::Unknown => Release::Wait(Wait::Undecided),
        }
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

    fn place(&mut self, now: Reading, seating: &mut Seating, homeless: Vec<Homeless>) {
        for Homeless { address: ip, wish } in homeless {
            let Some(gateway) = self
                .addresses
                .get(&ip)
                .map(|address| address.gateway.clone())
            else {
                continue;
            };
            let seats = &mut seating.of(self, &gateway).seats;
            let target = seats.take(ip, wish.as_deref());
            if let (Some(target), Some(address)) = (target, self.addresses.get_mut(&ip)) {
                address.give(now, target.clone());
                self.stale.insert(target);
            }
        }
    }

    /// From whoever has lost an address and cannot be asked for it, the right to use it is taken: its
    /// lease is extended no more until it has applied that.
    fn renew(&mut self, now: Instant) {
        for address in self.addresses.values_mut() {
            let (Some(owner), Stage::Leaving(leaving)) = (&address.owner, &mut address.stage)
            else {
                continue;
            };
            let epoch = self.nodes.get(owner).map(|node| node.epoch);
            leaving.epoch = leaving.epoch.or(epoch);
        }
        self.leases.pass(now);
        if !self.leases.is_fenced() {
            return;
        }
        let ips: Vec<IpAddr> = self.addresses.keys().copied().collect();
        for ip in ips {
            self.fence(now, ip);
        }
        let owners = self.addresses.values().filter_map(|it| it.owner.as_ref());
        let candidates = self.candidates.values().flatten();
        let renewals = self.leases.renewals(owners.chain(candidates));
        self.outputs.extend(renewals.map(Output::Renew));
    }

    /// When the owner of a leaving address cannot use it any more, as far as that is known.
    fn safe_at(&self, address: &Address) -> Option<Instant> {
        let Stage::Leaving(Leaving { epoch, .. }) = address.stage else {
            return None;
        };
        match self.leases.safety(address.owner.as_deref()?, epoch?) {
            Safety::At(at) => Some(at),
            Safety::Unknown | Safety::NoQuorum(_) => None,
        }
    }

    fn fence(&mut self, now: Instant, ip: IpAddr) {
        let address = self.addresses.get(&ip);
        let owner = address.and_then(|address| address.owner.clone());
        let Some(owner) = owner.filter(|owner| self.release(owner) == Release::AtOnce) else {
            return;
        };
        let stage = self
            .addresses
            .get_mut(&ip)
            .map(|address| &mut address.stage);
        if let Some(Stage::Leaving(Leaving {
            step,
            epoch: Some(epoch),
            ..
        })) = stage
        {
            if step.phase == Phase::Revoke {
                step.enter(now, Phase::Safe);
            }
            self.dirty |= self.leases.raise(&owner, *epoch);
        }
    }

    fn find_wake(&self, now: Instant) -> Option<Instant> {
        let damped = self.nodes.values().filter_map(|node| {
            let hold = node.damping.hold()?;
            (node.state == State::Available).then(|| node.changed + hold)
        });
        let failback = self
            .addresses
            .values()
            .filter_map(|address| self.failback_at(address));
        let settling = self
            .nodes
            .values()
            .filter(|node| node.present && node.state == State::Unknown);
        let settling = settling.map(|node| node.appeared + self.settings.settle);
        let guard = self.guard.next_wake(&self.settings.guard);
        let safe = self
            .addresses
            .values()
            .filter_map(|address| self.safe_at(address));
        let witnesses = self.leases.fencing().witnesses();
        let witnesses = witnesses.and_then(|it| self.leases.witnesses.next_wake(it));
        let wakes = damped
            .chain(witnesses)
            .chain(failback)
            .chain(settling)
            .chain(guard)
            .chain(safe);
        wakes.filter(|at| *at > now).min()
    }
}

/// The next step for one address.
enum Step {
    /// Its owner is to release it.
    Revoke(Arc<str>, Cause),
    /// It has left its owner, safely.
    Part(Arc<str>, Cause),
    /// It has no owner, and may get one.
    Place,
}

impl Address {
    /// Leaves its owner: revoked and safe. The record follows, be it of nobody.
    fn part(&mut self, now: Reading, owner: Arc<str>, cause: Cause) {
        let mut parting = match std::mem::replace(&mut self.stage, Stage::Settled) {
            Stage::Leaving(leaving) => leaving.step,
            Stage::Settled | Stage::Arriving(_) => {
                Move::begin(now.instant, Phase::Revoke, Some(owner.clone()), Some(cause))
            }
        };
        // Whoever confirms is safe at once; so, without a fence, is who cannot be asked.
        if parting.phase == Phase::Revoke {
            parting.enter(now.instant, Phase::Safe);
        }
        parting.enter(now.instant, Phase::Record);
        self.owner = None;
        self.since = now.wall;
        self.cause = Some(cause);
        self.report = None;
        self.claim = Claim::Failover;
        match cause {
            Cause::Unreachable | Cause::Drained => {
                self.home.get_or_insert(owner);
            }
            Cause::Deleted | Cause::Unselected | Cause::Withdrawn => self.home = None,
            Cause::Failback => {}
        }
        self.stage = Stage::Arriving(parting);
    }

    /// Gets an owner.
    fn give(&mut self, now: Reading, target: Arc<str>) {
        if let Stage::Settled = self.stage {
            self.stage = Stage::Arriving(Move::begin(now.instant, Phase::Record, None, None));
        }
        if self.home.as_ref() == Some(&target) {
            self.home = None;
        }
        self.owner = Some(target);
        self.since = now.wall;
    }
}
