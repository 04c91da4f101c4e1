//! One step of a claim.

use std::time::Instant;

use super::super::types::Claim;
use super::entry::{Entry, Held, Phase};
use super::{Link, Observed, Step};

/// Brings one address a step further towards `link`.
pub(super) fn claim(
    now: Instant,
    entry: &mut Entry,
    link: &Link,
    observed: &Observed,
    claims: &mut Vec<Step>,
    moves: &mut Vec<Step>,
) {
    let address = entry.egress_ip.address;
    let here = observed.addresses.iter().filter(|it| it.address == address);
    let (there, elsewhere): (Vec<_>, Vec<_>) = here.partition(|it| it.link == link.index);
    for stale in elsewhere.iter().filter(|it| it.ours) {
        moves.push(Step::Remove {
            address,
            link: stale.link,
        });
    }
    if let Some(foreign) = there.iter().chain(&elsewhere).find(|it| !it.ours) {
        let name = observed
            .link(foreign.link)
            .map_or("an interface", |it| &it.name);
        let error = format!("somebody else has configured {address} on {name} of this node");
        entry.phase = Phase::failed(now, error);
        return;
    }
    if !there.is_empty() {
        match &mut entry.phase {
            Phase::Held(held) if held.link == link.index => held.follow(now, link),
            phase => *phase = Phase::Held(Held::new(now, link)),
        }
        return;
    }
    let probes = entry.egress_ip.claim == Claim::First && link.mac.is_some() && !link.loopback;
    match &entry.phase {
        Phase::Failed { again, .. } | Phase::Duplicate { again, .. } if now < *again => return,
        Phase::Probing { until, .. } if now < *until => {
            if entry.wanted(now).probe {
                let link = link.index;
                claims.push(Step::Probe { address, link });
            }
            return;
        }
        _ => {}
    }
    if !link.up {
        entry.phase = entry
            .phase
            .waiting(format!("interface {} is down", link.name));
        return;
    }
    let link = link.index;
    if probes && !entry.phase.is_safe() {
        entry.phase = entry.phase.probed(now);
        entry.wanted(now);
        claims.push(Step::Probe { address, link });
    } else {
        claims.push(Step::Add { address, link });
    }
}
