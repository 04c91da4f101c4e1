//! What the planner knows of each node and each address.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use probe_user::egress::{AddressReport, AddressState, Claim};

use crate::api::Timestamp;
use crate::failover::damping::Damping;
use crate::failover::{AddressRecord, Cause, Event, Phase};
use crate::health::State;

#[derive(Debug)]
pub(super) struct Node {
    /// It is configured.
    pub(super) present: bool,
    pub(super) labels: BTreeMap<String, String>,
    /// Where its agent is, or was, reached.
    pub(super) addresses: Vec<IpAddr>,
    /// When the planner first heard of it.
    pub(super) appeared: Instant,
    pub(super) state: State,
    /// When it got into that state.
    pub(super) changed: Instant,
    /// When it last answered, or was first heard of.
    pub(super) heard: Instant,
    /// Others hear it, but the controller does not.
    pub(super) path_down: bool,
    /// When it fell to UNREACHABLE, while it is.
    pub(super) fell: Option<Instant>,
    pub(super) drained: bool,
    pub(super) damping: Damping,
    /// Of its present set.
    pub(super) epoch: u64,
    /// The last one that it was told of.
    pub(super) told: u64,
    /// The last one that it confirmed.
    pub(super) confirmed: u64,
    /// What it said it holds, or could not get rid of, as of `told`.
    pub(super) leftovers: BTreeSet<IpAddr>,
    /// By which devices its egress IPs may leave without a lease, and why.
    pub(super) not_fenced: Vec<String>,
    /// Why it could not be told.
    pub(super) failure: Option<String>,
}

impl Node {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            present: false,
            labels: BTreeMap::new(),
            addresses: Vec::new(),
            appeared: now,
            state: State::Unknown,
            changed: now,
            heard: now,
            path_down: false,
            fell: None,
            drained: false,
            damping: Damping::default(),
            epoch: 0,
            told: 0,
            confirmed: 0,
            leftovers: BTreeSet::new(),
            not_fenced: Vec::new(),
            failure: None,
        }
    }

    /// Whether it is not configured any more and has confirmed all that it was told, so that nothing
    /// more need be known of it.
    pub(super) fn is_done(&self) -> bool {
        let confirmed = self.told == self.epoch && self.confirmed >= self.epoch;
        !self.present && (self.epoch == 0 || confirmed && self.leftovers.is_empty())
    }

    /// Whether it may be given addresses.
    pub(super) fn is_eligible(&self) -> bool {
        self.present
            && self.state == State::Available
            && !self.path_down
            && !self.drained
            && self.damping.hold().is_none()
    }
}

#[derive(Debug)]
pub(super) struct Address {
    pub(super) gateway: String,
    /// It belongs to no gateway any more.
    pub(super) withdrawn: bool,
    pub(super) owner: Option<Arc<str>>,
    pub(super) claim: Claim,
    pub(super) since: SystemTime,
    pub(super) cause: Option<Cause>,
    pub(super) home: Option<Arc<str>>,
    pub(super) stage: Stage,
    /// What the owner's agent last said of it.
    pub(super) report: Option<AddressState>,
}

/// Where an address is on its way.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// It stays where it is.
    Settled,
    /// Its owner is to release it: whoever takes over is chosen after that.
    Leaving(Leaving),
    /// It was given to its owner, who is being told.
    Arriving(Move),
}

/// An address that its owner is to release.
#[derive(Clone, Debug)]
pub(super) struct Leaving {
    pub(super) step: Move,
    pub(super) cause: Cause,
    /// The owner's first epoch without it; `None`: not given yet.
    pub(super) epoch: Option<u64>,
}

/// A move under way.
#[derive(Clone, Debug)]
pub(super) struct Move {
    pub(super) from: Option<Arc<str>>,
    pub(super) cause: Option<Cause>,
    pub(super) phase: Phase,
    entered: Instant,
    done: Vec<(Phase, Duration)>,
}

impl Move {
    pub(super) fn begin(
        now: Instant,
        phase: Phase,
        from: Option<Arc<str>>,
        cause: Option<Cause>,
    ) -> Self {
        Self {
            from,
            cause,
            phase,
            entered: now,
            done: Vec::new(),
        }
    }

    /// Ends the present step.
    pub(super) fn enter(&mut self, now: Instant, phase: Phase) {
        self.done
            .push((self.phase, now.saturating_duration_since(self.entered)));
        (self.phase, self.entered) = (phase, now);
    }

    fn finish(mut self, now: Instant) -> Vec<(Phase, Duration)> {
        self.done
            .push((self.phase, now.saturating_duration_since(self.entered)));
        self.done
    }
}

impl Address {
    pub(super) fn new(gateway: &str, now: SystemTime) -> Self {
        Self {
            gateway: gateway.to_owned(),
            withdrawn: false,
            owner: None,
            claim: Claim::First,
            since: now,
            cause: None,
            home: None,
            stage: Stage::Settled,
            report: None,
        }
    }

    pub(super) fn restored(now: Instant, recorded: &AddressRecord) -> Self {
        let AddressRecord {
            gateway,
            owner,
            releasing,
            claim,
            since: Timestamp(since),
            cause,
            home,
        } = recorded.clone();
        let owner: Option<Arc<str>> = owner.map(Arc::from);
        let leave = |cause| {
            let step = Move::begin(now, Phase::Revoke, owner.clone(), Some(cause));
            Stage::Leaving(Leaving {
                step,
                cause,
                epoch: None,
            })
        };
        Self {
            gateway,
            withdrawn: false,
            stage: releasing.map_or(Stage::Settled, leave),
            owner,
            claim,
            since,
            cause,
            home: home.map(Arc::from),
            report: None,
        }
    }

    pub(super) fn recorded(&self) -> AddressRecord {
        let releasing = match self.stage {
            Stage::Leaving(Leaving { cause, .. }) => Some(cause),
            Stage::Settled | Stage::Arriving(_) => None,
        };
        AddressRecord {
            gateway: self.gateway.clone(),
            owner: self.owner.as_deref().map(str::to_owned),
            releasing,
            claim: self.claim,
            since: Timestamp(self.since),
            cause: self.cause,
            home: self.home.as_deref().map(str::to_owned),
        }
    }

    /// The node whose set it is in: the owner, unless that is to release it.
    pub(super) fn holder(&self) -> Option<&Arc<str>> {
        match self.stage {
            Stage::Leaving(..) => None,
            Stage::Settled | Stage::Arriving(_) => self.owner.as_ref(),
        }
    }

    /// The owner's agent reports on it; says when that completes a move. An address that is routed
    /// is not announced.
    pub(super) fn handle_report(
        &mut self,
        now: Instant,
        report: &AddressReport,
        routed: bool,
    ) -> Option<Event> {
        self.report = Some(report.state.clone());
        let Stage::Arriving(arriving) = &mut self.stage else {
            return None;
        };
        let announced = match report.state {
            AddressState::Announced => true,
            AddressState::Configured => routed,
            AddressState::Duplicate { .. } | AddressState::Failed { .. } => return None,
        };
        if arriving.phase == Phase::Place {
            arriving.enter(now, Phase::Announce);
        }
        if !announced {
            return None;
        }
        let Stage::Arriving(arriving) = std::mem::replace(&mut self.stage, Stage::Settled) else {
            return None;
        };
        Some(Event::Completed {
            gateway: self.gateway.clone(),
            address: report.address,
            node: self.owner.clone()?,
            phases: arriving.finish(now),
        })
    }
}
