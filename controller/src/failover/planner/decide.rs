//! What follows from what is known: which addresses leave, and where they go.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use probe_user::egress::Claim;

use super::Planner;
use super::seating::Seating;
use super::state::{Address, Leaving, Move, Node, Stage};
use super::step::Step;
use crate::clock::Reading;
use crate::failover::guard::{Sign, Verdict};
use crate::failover::{Cause, Event, Output, Phase};
use crate::health::State;

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
            self.keep_addresses(now.instant);
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

    /// Stays with the owner that it was to leave, which may have lost it already and claims it again
    /// then; returns that.
    pub(super) fn stay(&mut self) -> Option<Arc<str>> {
        self.stage = Stage::Settled;
        self.claim = Claim::Failover;
        self.report = None;
        self.owner.clone()
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
