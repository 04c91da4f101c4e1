//! The node's lease: which requests extend it, and until when.
//!
//! A lease is the right to send from the node's egress IPs. It rests on what the *asker* knows of
//! the node, not on when its packet arrives: a request echoes the node's own time from a reply that
//! the asker has received, and the lease ends a fixed time after that. So it cannot outlive the
//! asker's knowledge, however long packets travel, and a replay extends nothing.
//!
//! The lease time is what the request asks for, but no more than the node's own limit
//! ([`Assignment::lease_limit_ms`]): whoever waits for a lease to end need only know the limits
//! that the node may have applied.

#[cfg(test)]
mod tests;

use crate::maps::{Assignment, MAX_WITNESSES, NodeLease, Witness};
use crate::outcome::Outcome;
use crate::wire::probe::{ProbePacket, RENEW, VOTE};

const RENEW_FLAG: u32 = RENEW as u32;
const VOTE_FLAG: u32 = VOTE as u32;
const NANOS_PER_MILLI: u64 = 1_000_000;

/// What a probe asks for beside an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Ask {
    /// [`RENEW`], [`VOTE`], or neither.
    pub flags: u32,
    /// Lease time wanted, ms.
    pub lease_ms: u32,
    /// Oldest applied epoch for which it is meant.
    pub floor: u64,
    /// The incarnation that it is meant for.
    pub incarnation: u64,
    /// The node's time that it echoes, ns.
    pub echoed_ns: u64,
    /// The witness's instance id, 0 from a controller.
    pub witness: u64,
}

impl Ask {
    /// Whether it asks for anything beside an answer.
    #[inline(always)]
    pub const fn is_for_lease(&self) -> bool {
        self.flags & (RENEW_FLAG | VOTE_FLAG) != 0
    }

    /// What a request asks for.
    #[inline(always)]
    pub const fn of(request: &ProbePacket) -> Self {
        Self {
            flags: request.flags() as u32,
            lease_ms: request.lease_ms(),
            floor: request.epoch(),
            incarnation: request.incarnation(),
            echoed_ns: request.node_time(),
            witness: request.prober(),
        }
    }
}

/// Where the lease and the witnesses are kept.
pub trait Keeper {
    /// The witness with this instance id, if it is a member of the node's set.
    fn witness(&self, instance: u64) -> Option<&Witness>;
    /// Changes the lease; nobody else does meanwhile. `None`: there is none to change.
    fn change_lease<T>(&self, change: impl FnOnce(&mut NodeLease) -> T) -> Option<T>;
}

/// Does what a genuine request asks for if it may, and says how the answer is to be counted. `now`:
/// boot clock, ns.
#[inline(always)]
pub fn consider(ask: &Ask, assignment: &Assignment, now: u64, keeper: &impl Keeper) -> Outcome {
    match ask.flags & (RENEW_FLAG | VOTE_FLAG) {
        RENEW_FLAG if ask.witness == 0 => settle(renew(ask, assignment, now, keeper)),
        VOTE_FLAG if ask.witness != 0 => settle(vote(ask, assignment, now, keeper)),
        _ => Outcome::LeaseContradiction,
    }
}

#[inline(always)]
fn settle(result: Result<Outcome, Outcome>) -> Outcome {
    match result {
        Ok(outcome) | Err(outcome) => outcome,
    }
}

#[inline(always)]
fn renew(
    ask: &Ask,
    assignment: &Assignment,
    now: u64,
    keeper: &impl Keeper,
) -> Result<Outcome, Outcome> {
    let lease_ns = lease_time(ask, assignment, now)?;
    keeper
        .change_lease(|lease| lease.renew(ask.echoed_ns, lease_ns, now))
        .ok_or(Outcome::LeaseNotGranted)?;
    Ok(Outcome::AnsweredRenew)
}

#[inline(always)]
fn vote(
    ask: &Ask,
    assignment: &Assignment,
    now: u64,
    keeper: &impl Keeper,
) -> Result<Outcome, Outcome> {
    let lease_ns = lease_time(ask, assignment, now)?;
    // A copy: the lease is changed under a lock, where no other map may be looked at.
    let witness = *keeper
        .witness(ask.witness)
        .ok_or(Outcome::LeaseUnknownWitness)?;
    keeper
        .change_lease(|lease| lease.vote(&witness, ask.echoed_ns, lease_ns, now))
        .ok_or(Outcome::LeaseNotGranted)?;
    Ok(Outcome::AnsweredVote)
}

/// How long after the echoed time the lease may end, ns, if the request is meant for this node as
/// it is now.
#[inline(always)]
fn lease_time(ask: &Ask, assignment: &Assignment, now: u64) -> Result<u64, Outcome> {
    if ask.incarnation != assignment.incarnation || ask.incarnation == 0 {
        return Err(Outcome::LeaseOtherIncarnation);
    }
    if ask.echoed_ns == 0 || ask.echoed_ns > now {
        return Err(Outcome::LeaseWrongEcho);
    }
    if assignment.applied_epoch < ask.floor {
        return Err(Outcome::LeaseOldEpoch);
    }
    let granted_ms = ask.lease_ms.min(assignment.lease_limit_ms);
    if granted_ms == 0 {
        return Err(Outcome::LeaseNotGranted);
    }
    Ok(u64::from(granted_ms) * NANOS_PER_MILLI)
}

impl NodeLease {
    /// Whether the lease is held at `now` (boot clock, ns).
    #[inline(always)]
    pub const fn is_held(&self, now: u64) -> bool {
        now < self.expires_ns
    }

    /// What is left of the lease, ms.
    #[inline(always)]
    pub const fn remaining_ms(expires_ns: u64, now: u64) -> u32 {
        let remaining = expires_ns.saturating_sub(now) / NANOS_PER_MILLI;
        if remaining > u32::MAX as u64 {
            u32::MAX
        } else {
            remaining as u32
        }
    }

    /// How often the lease has lapsed so far, the present lapse included.
    pub const fn lapses(&self, now: u64) -> u64 {
        self.expiries + (self.expires_ns != 0 && !self.is_held(now)) as u64
    }

    /// The deciding controller has heard the node at `echoed_ns`.
    #[inline(always)]
    pub fn renew(&mut self, echoed_ns: u64, lease_ns: u64, now: u64) {
        self.renewals += 1;
        self.extend(echoed_ns + lease_ns, now);
    }

    /// A witness has heard the node at `echoed_ns`. The lease follows the newest time at or after
    /// which a majority of the whole set has heard it.
    #[inline(always)]
    pub fn vote(&mut self, witness: &Witness, echoed_ns: u64, lease_ns: u64, now: u64) {
        if self.set_version != witness.set_version {
            self.set_version = witness.set_version;
            self.echoed_ns = [0; MAX_WITNESSES];
        }
        let Some(newest) = self.echoed_ns.get_mut(witness.slot as usize) else {
            return;
        };
        self.votes += 1;
        *newest = echoed_ns.max(*newest);
        let basis = self.heard_by_majority(witness.set_size);
        if basis != 0 {
            self.extend(basis + lease_ns, now);
        }
    }

    /// The majority-th newest vote, 0 if fewer have voted.
    #[inline(always)]
    fn heard_by_majority(&self, set_size: u32) -> u64 {
        let majority = u64::from(set_size / 2 + 1);
        let mut basis = 0;
        for slot in 0..MAX_WITNESSES {
            // Read anew for every candidate: a kernel program has no stack to keep them all on.
            let echoed_ns = core::hint::black_box(&self.echoed_ns);
            let candidate = echoed_ns[slot];
            let mut supporters = 0;
            for other in echoed_ns {
                supporters += is_at_least(*other, candidate);
            }
            basis = basis.max(candidate * is_at_least(supporters, majority));
        }
        basis
    }

    #[inline(always)]
    fn extend(&mut self, expires_ns: u64, now: u64) {
        if expires_ns <= self.expires_ns {
            return;
        }
        let lapsed = self.expires_ns != 0 && self.expires_ns <= now;
        if lapsed && expires_ns > now {
            self.expiries += 1;
        }
        self.expires_ns = expires_ns;
    }
}

/// 1 if `a >= b`, else 0, for numbers below 2^63. Without a branch: every branch doubles what the
/// verifier has to look at.
#[inline(always)]
const fn is_at_least(a: u64, b: u64) -> u64 {
    (a | 1 << 63).wrapping_sub(b) >> 63
}
