//! What is said of a gateway in its status.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::SystemTime;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use probe_user::egress::Claim;

use super::conditions::Statement;
use super::gateways::Refusal;
use super::resources::{EgressGatewayStatus, Eip, GatewayNode, NodeReadiness, Unassigned};
use super::world::GatewayObject;
use crate::api::{self, State};
use crate::failover::Gateway;

/// So many nodes that own nothing are named.
const MENTIONED: usize = 100;

/// What is known of a gateway.
pub(super) struct Known<'a> {
    pub(super) object: &'a GatewayObject,
    /// Why it is not in force as it is written.
    pub(super) refusal: Option<&'a Refusal>,
    /// As it is in force; `None`: it is not at all.
    pub(super) gateway: Option<&'a Gateway>,
    /// What was decided about it.
    pub(super) view: Option<&'a api::Gateway>,
}

/// So many owners fit into a column.
const SHOWN: usize = 3;

/// The status, given the conditions `before`.
pub(super) fn status(
    known: &Known<'_>,
    state: impl Fn(&str) -> State,
    before: &[Condition],
    now: SystemTime,
) -> EgressGatewayStatus {
    let addresses = known.view.map_or(&[][..], |view| &view.addresses);
    let candidates = known.view.map_or(&[][..], |view| &view.candidates);
    let why = why_unassigned(candidates);
    let unassigned = addresses.iter().filter(|it| it.owner.is_none());
    let unassigned: Vec<Unassigned> = unassigned
        .map(|it| Unassigned {
            address: it.address.to_string(),
            reason: why.to_owned(),
        })
        .collect();
    let statements = [accepted(known), assigned(known, unassigned.len(), why)];
    EgressGatewayStatus {
        observed_generation: known.object.generation,
        addresses: count(addresses.len()),
        assigned: count(addresses.len() - unassigned.len()),
        candidates: count(candidates.len()),
        owners: owners(addresses),
        node_list: node_list(known, addresses, candidates, state),
        unassigned,
        conditions: statements.map(|it| it.condition(before, now)).into(),
    }
}

/// Some names, and how many more there are.
fn owners(addresses: &[api::EgressIp]) -> String {
    let all: BTreeSet<&str> = addresses
        .iter()
        .filter_map(|it| it.owner.as_deref())
        .collect();
    let named: Vec<&str> = all.iter().copied().take(SHOWN).collect();
    match all.len() - named.len() {
        0 => named.join(","),
        more => format!("{} and {more} more", named.join(",")),
    }
}

fn count(number: usize) -> i32 {
    number.try_into().unwrap_or(i32::MAX)
}

fn accepted<'a>(known: &Known<'a>) -> Statement<'a> {
    let message = match (known.refusal, known.gateway) {
        (None, _) => "the gateway is in force".to_owned(),
        (Some(refusal), None) => format!("the gateway is not in force: {refusal}"),
        (Some(refusal), Some(_)) => {
            format!("the gateway stays in force as it was before: {refusal}")
        }
    };
    Statement {
        kind: "Accepted",
        holds: known.refusal.is_none(),
        reason: known.refusal.map_or("Accepted", Refusal::reason),
        message,
        generation: known.object.generation,
    }
}

fn assigned<'a>(known: &Known<'_>, unassigned: usize, why: &'a str) -> Statement<'a> {
    let (holds, reason, message) = match (known.gateway, unassigned) {
        (None, _) => (
            false,
            "NotAccepted",
            "the gateway is not in force".to_owned(),
        ),
        (Some(_), 0) => (true, "Assigned", "every egress IP has an owner".to_owned()),
        (Some(_), count) => (false, why, format!("{count} egress IPs have no owner")),
    };
    Statement {
        kind: "Assigned",
        holds,
        reason,
        message,
        generation: known.object.generation,
    }
}

/// Why those without an owner have none. It holds for all of them.
fn why_unassigned(candidates: &[api::Candidate]) -> &'static str {
    if candidates.is_empty() {
        "NoCandidate"
    } else if candidates
        .iter()
        .all(|candidate| candidate.barred.is_some())
    {
        "NoAvailableCandidate"
    } else {
        "Pending"
    }
}

fn node_list(
    known: &Known<'_>,
    addresses: &[api::EgressIp],
    candidates: &[api::Candidate],
    state: impl Fn(&str) -> State,
) -> Vec<GatewayNode> {
    let mut owned: BTreeMap<&str, Vec<Eip>> = BTreeMap::new();
    for address in addresses {
        if let Some(owner) = &address.owner {
            owned
                .entry(owner)
                .or_default()
                .push(eip(known.gateway, address));
        }
    }
    let others = candidates.iter().map(|candidate| candidate.node.as_str());
    let others: Vec<&str> = others.filter(|name| !owned.contains_key(name)).collect();
    for name in others.into_iter().take(MENTIONED) {
        owned.insert(name, Vec::new());
    }
    let node = |(name, eips): (&str, Vec<Eip>)| GatewayNode {
        name: name.to_owned(),
        status: readiness(state(name)),
        eips,
    };
    owned.into_iter().map(node).collect()
}

fn eip(gateway: Option<&Gateway>, it: &api::EgressIp) -> Eip {
    let text = it.address.to_string();
    let told = gateway.map(|gateway| gateway.egress_ip(it.address, Claim::First));
    let sources = told.map_or(Vec::new(), |told| told.sources);
    let (ipv4, ipv6) = match it.address {
        IpAddr::V4(_) => (Some(text), None),
        IpAddr::V6(_) => (None, Some(text)),
    };
    Eip {
        ipv4,
        ipv6,
        since: Some(it.since),
        sources: sources.iter().map(ToString::to_string).collect(),
    }
}

fn readiness(state: State) -> NodeReadiness {
    match state {
        State::Available => NodeReadiness::Ready,
        State::Unavailable => NodeReadiness::Unavailable,
        State::Unreachable => NodeReadiness::Unreachable,
        State::Unknown => NodeReadiness::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::failover::{GatewayError, Pool, Selector};
    use crate::kubernetes::resources::{EgressGateway, EgressGatewaySpec};

    fn object() -> GatewayObject {
        let mut object = EgressGateway::new("web", EgressGatewaySpec::default());
        object.metadata.generation = Some(7);
        object.into()
    }

    fn gateway() -> Gateway {
        Gateway {
            name: "web".to_owned(),
            selector: Selector::default(),
            pool: Pool::parse(&["192.0.2.1", "2001:db8::1"]).unwrap(),
            defaults: Vec::new(),
            cluster_default: false,
            sources: vec!["10.244.0.0/16".parse().unwrap()],
            except: Vec::new(),
            interface: None,
            routed: false,
            max_per_node: None,
        }
    }

    fn egress_ip(address: &str, owner: Option<&str>) -> api::EgressIp {
        api::EgressIp {
            address: address.parse().unwrap(),
            owner: owner.map(str::to_owned),
            since: api::Timestamp(SystemTime::UNIX_EPOCH),
            unassigned: None,
            cause: None,
            phase: None,
            held: None,
            report: None,
        }
    }

    fn candidate(node: &str, barred: bool) -> api::Candidate {
        api::Candidate {
            node: node.to_owned(),
            state: State::Available,
            barred: barred.then(|| "is drained".to_owned()),
            lease: None,
        }
    }

    fn view(addresses: Vec<api::EgressIp>, candidates: Vec<api::Candidate>) -> api::Gateway {
        api::Gateway {
            name: "web".to_owned(),
            cluster_default: false,
            candidates,
            addresses,
        }
    }

    fn status_of(
        view: &api::Gateway,
        before: &[Condition],
        now: SystemTime,
    ) -> EgressGatewayStatus {
        let (object, gateway) = (object(), gateway());
        let known = Known {
            object: &object,
            refusal: None,
            gateway: Some(&gateway),
            view: Some(view),
        };
        status(&known, |_| State::Available, before, now)
    }

    fn condition<'a>(status: &'a EgressGatewayStatus, kind: &str) -> &'a Condition {
        status
            .conditions
            .iter()
            .find(|it| it.type_ == kind)
            .unwrap()
    }

    #[test]
    fn it_says_who_owns_what_and_whose_traffic_leaves_from_it() {
        let addresses = vec![
            egress_ip("192.0.2.1", Some("n2")),
            egress_ip("2001:db8::1", Some("n2")),
        ];
        let view = view(
            addresses,
            vec![candidate("n1", false), candidate("n2", false)],
        );
        let status = status_of(&view, &[], SystemTime::now());
        assert_eq!(
            (status.addresses, status.assigned, status.candidates),
            (2, 2, 2)
        );
        assert_eq!(status.observed_generation, Some(7));
        assert_eq!(status.owners, "n2");
        assert_eq!(status.node_list[0].name, "n1");
        let eips = &status.node_list[1].eips;
        assert_eq!(eips[0].ipv4.as_deref(), Some("192.0.2.1"));
        assert_eq!(eips[0].sources, ["10.244.0.0/16"]);
        assert_eq!(eips[1].ipv6.as_deref(), Some("2001:db8::1"));
        assert_eq!(condition(&status, "Assigned").status, "True");
    }

    #[test]
    fn an_address_without_an_owner_says_why() {
        let cases = [
            (vec![], "NoCandidate"),
            (vec![candidate("n1", true)], "NoAvailableCandidate"),
            (
                vec![candidate("n1", true), candidate("n2", false)],
                "Pending",
            ),
        ];
        for (candidates, reason) in cases {
            let view = view(vec![egress_ip("192.0.2.1", None)], candidates);
            let status = status_of(&view, &[], SystemTime::now());
            assert_eq!(status.unassigned[0].reason, reason);
            let condition = condition(&status, "Assigned");
            assert_eq!(
                (condition.status.as_str(), condition.reason.as_str()),
                ("False", reason)
            );
        }
    }

    #[test]
    fn a_condition_that_stays_keeps_its_time() {
        let begin = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        let later = begin + Duration::from_secs(60);
        let unowned = view(vec![egress_ip("192.0.2.1", None)], vec![]);
        let first = status_of(&unowned, &[], begin);
        let same = status_of(&unowned, &first.conditions, later);
        assert_eq!(same, first);
        let owned = view(vec![egress_ip("192.0.2.1", Some("n1"))], vec![]);
        let other = status_of(&owned, &first.conditions, later);
        let since = |status| condition(status, "Assigned").last_transition_time.clone();
        assert_ne!(since(&other), since(&first));
    }

    #[test]
    fn a_gateway_that_is_refused_says_why_and_whether_it_was_in_force_before() {
        let refusal = Refusal::Together(GatewayError::Address {
            gateway: "web".to_owned(),
            address: "192.0.2.1".parse().unwrap(),
            other: "older".to_owned(),
        });
        let (object, gateway) = (object(), gateway());
        for (gateway, words) in [
            (None, "is not in force"),
            (Some(&gateway), "as it was before"),
        ] {
            let known = Known {
                object: &object,
                refusal: Some(&refusal),
                gateway,
                view: None,
            };
            let status = status(&known, |_| State::Unknown, &[], SystemTime::now());
            let condition = condition(&status, "Accepted");
            assert_eq!(condition.reason, "AddressConflict");
            assert!(condition.message.contains(words) && condition.message.contains("older"));
        }
    }
}
