//! What the planner shows: where each address is and why.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use probe_user::egress::AddressState;
use probe_user::settings::HumanDuration;

use super::Planner;
use super::state::{Address, Leaving, Node, Stage};
use super::step::{Release, Wait};
use crate::api::{self, ReportState, Timestamp};
use crate::failover::{Cause, Gateway, Phase};
use crate::health::State;

impl Planner {
    /// Everything about gateways and moves.
    pub fn view(&self, now: Instant) -> api::GatewayList {
        let drained = self.nodes.iter().filter(|(_, node)| node.drained);
        api::GatewayList {
            failover: api::Failover {
                enabled: self.settings.enabled,
                fencing: self.leases.fencing().as_str().to_owned(),
                lease_ms: self.view_lease_time(),
                witnesses: self.view_witnesses(now),
                no_quorum: self.count_without_quorum(),
                term: self.term,
                held: self.guard.is_holding().then(|| Wait::Held.sentence()),
                recording: self.recording.is_some(),
                drained: drained.map(|(name, _)| (**name).to_owned()).collect(),
            },
            gateways: self
                .gateways
                .values()
                .map(|gateway| self.view_gateway(now, gateway))
                .collect(),
        }
    }

    fn view_gateway(&self, now: Instant, gateway: &Gateway) -> api::Gateway {
        let candidates = self.candidates.get(&gateway.name).into_iter().flatten();
        let candidate = |name: &Arc<str>| {
            let node = self.nodes.get(name)?;
            Some(api::Candidate {
                node: (**name).to_owned(),
                state: node.state,
                barred: self.barred(name, node, now),
                lease: self.view_lease(name),
            })
        };
        let addresses = self.addresses.iter();
        let own = addresses.filter(|(_, address)| address.gateway == gateway.name);
        api::Gateway {
            name: gateway.name.clone(),
            cluster_default: gateway.cluster_default,
            candidates: candidates.filter_map(candidate).collect(),
            addresses: own
                .map(|(ip, address)| self.view_address(now, *ip, address))
                .collect(),
        }
    }

    fn view_address(&self, now: Instant, ip: IpAddr, address: &Address) -> api::EgressIp {
        let owner = address.owner.as_deref();
        api::EgressIp {
            address: ip,
            owner: owner.map(str::to_owned),
            since: Timestamp(address.since),
            unassigned: owner.is_none().then(|| self.why_unassigned(now, address)),
            cause: address.cause,
            phase: address.phase(),
            held: self.why_held(now, address),
            report: address.report.as_ref().map(report),
        }
    }

    /// Why an address that should move does not.
    fn why_held(&self, now: Instant, address: &Address) -> Option<String> {
        let owner = address.owner.as_deref()?;
        let (cause, asked) = match address.stage {
            Stage::Leaving(Leaving { cause, .. }) => (cause, true),
            Stage::Settled | Stage::Arriving(_) => (self.cause(now, address)?, false),
        };
        let why = match self.release(owner) {
            _ if !self.settings.enabled => "failover is disabled".to_owned(),
            _ if address.phase() == Some(Phase::Safe) => self.why_unsafe(now, owner, address),
            Release::Wait(wait) => wait.sentence(),
            Release::Ask if asked => {
                match self.nodes.get(owner).and_then(|node| node.failure.as_ref()) {
                    Some(error) => {
                        format!("{owner}'s agent cannot be asked to release it: {error}")
                    }
                    None => {
                        format!("{owner}'s agent was asked to release it and has not confirmed yet")
                    }
                }
            }
            Release::Ask if cause.needs_target() => "no other candidate has room for it".to_owned(),
            Release::Ask | Release::AtOnce => return None,
        };
        Some(format!(
            "it leaves {owner} ({}), but {why}",
            cause.sentence()
        ))
    }

    fn why_unassigned(&self, now: Instant, address: &Address) -> String {
        if !self.settings.enabled {
            return "failover is disabled".to_owned();
        }
        let candidates = self.candidates.get(&address.gateway);
        let Some(candidates) = candidates.filter(|candidates| !candidates.is_empty()) else {
            return format!("gateway {} selects no node", address.gateway);
        };
        let room = self.room(&address.gateway);
        if !room.seats.is_empty() {
            let settling = room.settles_at.is_some_and(|at| now < at);
            return match settling {
                true => "some candidates have no state yet".to_owned(),
                false => "every candidate has as many as it may have".to_owned(),
            };
        }
        let barred = |name: &Arc<str>| {
            let why = self
                .nodes
                .get(name)
                .and_then(|node| self.barred(name, node, now))?;
            Some(format!("{name} {why}"))
        };
        let all: Vec<String> = candidates.iter().filter_map(barred).collect();
        let more = match all.len().saturating_sub(MENTIONED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let first = &all[..all.len().min(MENTIONED)];
        format!("no candidate may take it: {}{more}", first.join(", "))
    }

    /// Why a node or an egress IP is as it is; `None`: it is neither.
    pub fn explain(&self, now: Instant, subject: &str) -> Option<api::Explanation> {
        let sentences = match subject.parse::<IpAddr>() {
            Ok(ip) => self.explain_address(now, ip.to_canonical())?,
            Err(_) => self.explain_node(now, subject)?,
        };
        Some(api::Explanation {
            subject: subject.to_owned(),
            sentences,
        })
    }

    fn explain_address(&self, now: Instant, ip: IpAddr) -> Option<Vec<String>> {
        let address = self.addresses.get(&ip)?;
        let since = Timestamp(address.since);
        let gateway = &address.gateway;
        let mut sentences = vec![match &address.owner {
            Some(owner) => format!("{ip} of gateway {gateway} belongs to {owner} since {since}."),
            None => {
                let why = self.why_unassigned(now, address);
                format!("{ip} of gateway {gateway} has no owner since {since}: {why}.")
            }
        }];
        if let Some(cause) = address.cause {
            sentences.push(format!("It left its last owner: {}.", cause.sentence()));
        }
        if let Some(phase) = address.phase() {
            sentences.push(format!("It is moving: step {}.", phase.as_str()));
        }
        sentences.extend(
            self.why_held(now, address)
                .map(|why| format!("Held back: {why}.")),
        );
        if let Some(state) = &address.report {
            sentences.push(sentence_of_report(state));
        }
        let failure = address
            .owner
            .as_ref()
            .and_then(|owner| self.nodes.get(owner)?.failure.as_ref());
        sentences.extend(failure.map(|error| format!("Its agent could not be told: {error}.")));
        if let (Some(home), Some(hold)) = (&address.home, self.settings.failback) {
            let hold = HumanDuration(hold);
            sentences.push(format!(
                "It goes back to {home} once that has been AVAILABLE for {hold}."
            ));
        }
        Some(sentences)
    }

    fn explain_node(&self, now: Instant, name: &str) -> Option<Vec<String>> {
        let node = self.nodes.get(name).filter(|node| node.present)?;
        let lasted = whole(now.saturating_duration_since(node.changed));
        let mut sentences = vec![format!("{name} is {} for {lasted}.", node.state)];
        let gateways: Vec<&str> = self
            .candidates
            .iter()
            .filter(|(_, candidates)| candidates.contains(name))
            .map(|(gateway, _)| gateway.as_str())
            .collect();
        sentences.push(match (gateways.is_empty(), self.barred(name, node, now)) {
            (true, _) => "No gateway selects it.".to_owned(),
            (false, None) => format!("It may get addresses of: {}.", gateways.join(", ")),
            (false, Some(why)) => {
                format!(
                    "It is a candidate of {}, and gets no address: it {why}.",
                    gateways.join(", ")
                )
            }
        });
        let owned: Vec<String> = self
            .addresses_of(name)
            .iter()
            .map(IpAddr::to_string)
            .collect();
        sentences.push(match owned.is_empty() {
            true => "It owns no egress IP.".to_owned(),
            false => format!("It owns {}.", owned.join(", ")),
        });
        for ip in self.addresses_of(name) {
            let held = self
                .addresses
                .get(&ip)
                .and_then(|address| self.why_held(now, address));
            sentences.extend(held.map(|why| format!("{ip} is held back: {why}.")));
        }
        if node.confirmed < node.epoch {
            sentences.push("Its agent has not confirmed its present set of addresses.".to_owned());
        }
        let failure = node.failure.as_ref();
        sentences.extend(failure.map(|error| format!("Its agent could not be told: {error}.")));
        sentences.extend(self.explain_lease(now, name));
        let reasons = node.not_fenced.iter();
        sentences.extend(reasons.map(|reason| format!("NotFenced: {reason}.")));
        Some(sentences)
    }

    /// The egress IPs that a node owns.
    pub fn addresses_of(&self, node: &str) -> Vec<IpAddr> {
        let own = |(_, address): &(&IpAddr, &Address)| address.owner.as_deref() == Some(node);
        self.addresses
            .iter()
            .filter(own)
            .map(|(ip, _)| *ip)
            .collect()
    }
}

impl Planner {
    /// Why a node gets no new address.
    fn barred(&self, name: &str, node: &Node, now: Instant) -> Option<String> {
        let waits = || "has not confirmed whose votes extend its lease".to_owned();
        barred(node, now).or_else(|| (!self.leases.may_hold(name)).then(waits))
    }
}

/// How many candidates a sentence names.
const MENTIONED: usize = 5;

impl Address {
    fn phase(&self) -> Option<Phase> {
        match &self.stage {
            Stage::Settled => None,
            Stage::Leaving(Leaving { step, .. }) | Stage::Arriving(step) => Some(step.phase),
        }
    }
}

impl Wait {
    fn sentence(self) -> String {
        match self {
            Self::AgentSilent => {
                "its agent is silent while its dataplane works: that waits until \
                                  the agent is back or the node is UNREACHABLE"
            }
            Self::Undecided => "its state is not known yet",
            Self::Held => "too many nodes were lost at once: the controller suspects itself",
        }
        .to_owned()
    }
}

impl Cause {
    fn sentence(self) -> &'static str {
        match self {
            Self::Unreachable => "the node was UNREACHABLE",
            Self::Deleted => "the node was deleted",
            Self::Unselected => "the gateway does not select the node any more",
            Self::Drained => "the node was drained",
            Self::Failback => "the node that it came from was back",
            Self::Withdrawn => "it belongs to no gateway any more",
        }
    }
}

/// Why a node gets no new address, whoever extends its lease.
fn barred(node: &Node, now: Instant) -> Option<String> {
    if node.drained {
        return Some("is drained".to_owned());
    }
    if node.state != State::Available {
        return Some(format!("is {}", node.state));
    }
    if node.path_down {
        return Some("is heard by others only".to_owned());
    }
    node.damping.hold().map(|hold| {
        let left = hold.saturating_sub(now.saturating_duration_since(node.changed));
        format!(
            "fell too often and has to stay AVAILABLE for {} more",
            whole(left)
        )
    })
}

/// Whole seconds: nobody reads more.
pub(super) fn whole(time: Duration) -> HumanDuration {
    HumanDuration(Duration::from_secs(time.as_secs()))
}

fn report(state: &AddressState) -> api::Report {
    let (state, duplicate_mac, error) = match state {
        AddressState::Configured => (ReportState::Configured, None, None),
        AddressState::Announced => (ReportState::Announced, None, None),
        AddressState::Duplicate { mac } => (ReportState::Duplicate, Some(format_mac(mac)), None),
        AddressState::Failed { error } => (ReportState::Error, None, Some(error.clone())),
    };
    api::Report {
        state,
        duplicate_mac,
        error,
    }
}

fn sentence_of_report(state: &AddressState) -> String {
    match state {
        AddressState::Configured => "Its owner holds it.".to_owned(),
        AddressState::Announced => "Its owner holds it and has announced it.".to_owned(),
        AddressState::Duplicate { mac } => {
            format!("{} answers for it, too.", format_mac(mac))
        }
        AddressState::Failed { error } => format!("Its owner failed to configure it: {error}."),
    }
}

fn format_mac(mac: &[u8; 6]) -> String {
    let bytes: Vec<String> = mac.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(":")
}
