//! How the right to use an address is taken from an owner that does not release it.

use std::net::IpAddr;
use std::time::Instant;

use super::Planner;
use super::state::{Address, Leaving, Stage};
use super::step::{Release, Wait};
use crate::failover::lease::Safety;
use crate::failover::{Cause, Output, Phase};

impl Planner {
    /// From whoever has lost an address and cannot be asked for it, the right to use it is taken: its
    /// lease is extended no more until it has applied that.
    pub(super) fn renew(&mut self, now: Instant) {
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
    pub(super) fn safe_at(&self, address: &Address) -> Option<Instant> {
        let Stage::Leaving(Leaving { epoch, .. }) = address.stage else {
            return None;
        };
        match self.leases.safety(address.owner.as_deref()?, epoch?) {
            Safety::At(at) => Some(at),
            Safety::Unknown | Safety::NoQuorum(_) => None,
        }
    }

    fn fence(&mut self, now: Instant, ip: IpAddr) {
        let owner = self.addresses.get(&ip).and_then(|it| it.owner.clone());
        let Some((owner, release)) = owner.map(|owner| (owner.clone(), self.release(&owner)))
        else {
            return;
        };
        let stage = self.addresses.get_mut(&ip).map(|it| &mut it.stage);
        let Some(Stage::Leaving(Leaving {
            step,
            cause,
            epoch: Some(epoch),
        })) = stage
        else {
            return;
        };
        // The last controller had begun it: a node that was gone, and whose agent is not back yet.
        let was_gone = *cause == Cause::Unreachable && release == Release::Wait(Wait::AgentSilent);
        if release != Release::AtOnce && !was_gone {
            return;
        }
        if step.phase == Phase::Revoke {
            step.enter(now, Phase::Safe);
        }
        self.dirty |= self.leases.raise(&owner, *epoch);
    }
}
