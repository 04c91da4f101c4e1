//! From EgressGateway objects to gateways that can be decided about.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::ResourceExt as _;
use probe_user::settings::Invalid;

use super::resources::{EgressGateway, IpPools};
use super::world::GatewayObject;
use crate::daemon::parse_source;
use crate::failover::{
    Gateway, GatewayError, Pool, PoolError, Requirement, Selector, Values, check_gateways,
};

/// Why a gateway is not in force as it is written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    /// Its egress IPs.
    #[error("ippools: {0}")]
    Pool(#[from] PoolError),
    /// A default that is no address.
    #[error("ippools.{key}: {text:?} is not an address")]
    Default {
        /// Which.
        key: &'static str,
        /// What it says.
        text: String,
    },
    /// A source.
    #[error("{0}")]
    Source(String),
    /// Its selector.
    #[error("nodeSelector.selector: operator {0:?} is not one of label selectors")]
    Operator(String),
    /// What it has in common with others, or does not have in common with itself.
    #[error(transparent)]
    Together(#[from] GatewayError),
}

impl Refusal {
    /// The same in one word.
    pub(super) const fn reason(&self) -> &'static str {
        match self {
            Self::Pool(_) | Self::Default { .. } | Self::Source(_) | Self::Operator(_) => "Invalid",
            Self::Together(error) => error.reason(),
        }
    }
}

/// Reads one gateway.
pub(super) fn read(object: &EgressGateway) -> Result<Gateway, Refusal> {
    let spec = &object.spec;
    let source = |text: &String| parse_source(text, "sources").map_err(source_refusal);
    Ok(Gateway {
        name: object.name_any(),
        selector: selector(&spec.node_selector.selector)?,
        pool: pool(&spec.ippools)?,
        defaults: defaults(&spec.ippools)?,
        cluster_default: spec.cluster_default,
        sources: spec.sources.iter().map(source).collect::<Result<_, _>>()?,
        except: Vec::new(),
        interface: spec.interface.clone(),
        routed: spec.routed,
        max_per_node: spec.max_per_node.and_then(|max| usize::try_from(max).ok()),
    })
}

fn source_refusal(invalid: Invalid) -> Refusal {
    Refusal::Source(invalid.to_string())
}

fn pool(pools: &IpPools) -> Result<Pool, PoolError> {
    let texts = pools.ipv4.iter().chain(&pools.ipv6);
    let texts: Vec<&str> = texts
        .map(String::as_str)
        .filter(|it| !it.is_empty())
        .collect();
    Pool::parse(&texts)
}

fn defaults(pools: &IpPools) -> Result<Vec<IpAddr>, Refusal> {
    let given = [
        ("ipv4DefaultEIP", &pools.ipv4_default_eip),
        ("ipv6DefaultEIP", &pools.ipv6_default_eip),
    ];
    let given = given
        .into_iter()
        .filter_map(|(key, text)| Some((key, text.as_ref()?)));
    let parse = |(key, text): (&'static str, &String)| {
        text.parse().map_err(|_| Refusal::Default {
            key,
            text: text.clone(),
        })
    };
    given
        .filter(|(_, text)| !text.is_empty())
        .map(parse)
        .collect()
}

fn selector(selector: &LabelSelector) -> Result<Selector, Refusal> {
    let requirements = selector.match_expressions.iter().flatten();
    Ok(Selector {
        labels: selector.match_labels.clone().unwrap_or_default(),
        requirements: requirements.map(requirement).collect::<Result<_, _>>()?,
    })
}

fn requirement(requirement: &LabelSelectorRequirement) -> Result<Requirement, Refusal> {
    let values = || -> BTreeSet<String> { requirement.values.iter().flatten().cloned().collect() };
    let values = match requirement.operator.as_str() {
        "In" => Values::In(values()),
        "NotIn" => Values::NotIn(values()),
        "Exists" => Values::Exists,
        "DoesNotExist" => Values::DoesNotExist,
        other => return Err(Refusal::Operator(other.to_owned())),
    };
    Ok(Requirement {
        key: requirement.key.clone(),
        values,
    })
}

/// Gateways that are in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Accepted {
    /// These are in force, some of them as they were before; sources are not shared yet.
    pub(super) gateways: Vec<Gateway>,
    /// These are not as they are written, by name.
    pub(super) refused: BTreeMap<String, Refusal>,
}

/// Finds out which gateways can be in force together: of two that collide, the one that is in force
/// already, else the older one. One that is refused stays as it is in `before`, if that collides with
/// nothing.
pub(super) fn accept(
    objects: &BTreeMap<String, GatewayObject>,
    before: &[Gateway],
    nodes: &[(IpAddr, &str)],
) -> Accepted {
    let mut refused = BTreeMap::new();
    let last_good = |name: &str| before.iter().find(|gateway| gateway.name == name).cloned();
    let mut ranked = Vec::new();
    for (name, it) in objects {
        let good = last_good(name);
        let (gateway, in_force) = match read(&it.object) {
            Ok(gateway) => {
                let in_force = match &good {
                    Some(good) => *good == gateway,
                    None => it.accepted,
                };
                (Some(gateway), in_force)
            }
            Err(refusal) => {
                refused.insert(name.clone(), refusal);
                (good, true)
            }
        };
        let rank = (!in_force, it.object.creation_timestamp(), name);
        ranked.extend(gateway.map(|gateway| (rank, gateway)));
    }
    ranked.sort_by(|(one, _), (other, _)| one.cmp(other));
    let mut gateways: Vec<Gateway> = ranked.into_iter().map(|(_, gateway)| gateway).collect();
    while let Err(error) = check_gateways(&gateways, nodes.iter().copied()) {
        let wrong = gateways.iter().position(|it| it.name == error.gateway());
        let Some(index) = wrong else { break };
        let name = gateways[index].name.clone();
        let good = last_good(&name).filter(|good| *good != gateways[index]);
        match good.filter(|_| !refused.contains_key(&name)) {
            Some(good) => gateways[index] = good,
            None => drop(gateways.remove(index)),
        }
        refused.entry(name).or_insert(Refusal::Together(error));
    }
    Accepted { gateways, refused }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;

    use super::*;
    use crate::kubernetes::resources::EgressGatewaySpec;

    /// A gateway that was created so many seconds after the first.
    fn gateway(name: &str, age: i64, pool: &[&str]) -> EgressGateway {
        let mut spec = EgressGatewaySpec::default();
        spec.ippools.ipv4 = pool.iter().map(|text| (*text).to_owned()).collect();
        let mut gateway = EgressGateway::new(name, spec);
        let created = Timestamp::from_second(1_000_000 + age).unwrap();
        gateway.metadata.creation_timestamp = Some(Time(created));
        gateway
    }

    fn objects(gateways: &[EgressGateway]) -> BTreeMap<String, GatewayObject> {
        let named = gateways.iter().cloned();
        named
            .map(|gateway| (gateway.name_any(), gateway.into()))
            .collect()
    }

    fn names(accepted: &Accepted) -> Vec<&str> {
        accepted
            .gateways
            .iter()
            .map(|gateway| gateway.name.as_str())
            .collect()
    }

    #[test]
    fn a_manifest_of_spiderpools_is_read() {
        let object: EgressGateway = serde_json::from_value(serde_json::json!({
            "apiVersion": "pulsepath.dev/v1alpha1",
            "kind": "EgressGateway",
            "metadata": {"name": "default"},
            "spec": {
                "clusterDefault": false,
                "ippools": {
                    "ipv4": ["10.6.1.55", "10.6.1.60-10.6.1.65"],
                    "ipv6": [""],
                    "ipv4DefaultEIP": "10.6.1.55",
                    "ipv6DefaultEIP": ""
                },
                "nodeSelector": {"selector": {
                    "matchLabels": {"egress": "true"},
                    "matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["c"]}]
                }}
            }
        }))
        .unwrap();
        let gateway = read(&object).unwrap();
        assert_eq!(gateway.pool.len(), 7);
        assert_eq!(gateway.defaults, ["10.6.1.55".parse::<IpAddr>().unwrap()]);
        let labels = |zone: &str| {
            BTreeMap::from([("egress", "true"), ("zone", zone)].map(|(k, v)| (k.into(), v.into())))
        };
        assert!(gateway.selects(&labels("a")) && !gateway.selects(&labels("c")));
    }

    #[test]
    fn of_two_gateways_with_one_address_the_older_one_is_in_force() {
        let two = [
            gateway("a", 1, &["10.0.0.1"]),
            gateway("b", 0, &["10.0.0.1-10.0.0.2"]),
        ];
        let accepted = accept(&objects(&two), &[], &[]);
        assert_eq!(names(&accepted), ["b"]);
        assert_eq!(accepted.refused["a"].reason(), "AddressConflict");
    }

    #[test]
    fn what_is_in_force_loses_nothing_to_the_edit_of_an_older_one() {
        let before = [
            gateway("a", 0, &["10.0.0.1"]),
            gateway("b", 1, &["10.0.0.2"]),
        ];
        let good = accept(&objects(&before), &[], &[]);
        let edited = [gateway("a", 0, &["10.0.0.1-10.0.0.2"]), before[1].clone()];
        let accepted = accept(&objects(&edited), &good.gateways, &[]);
        assert_eq!(accepted.refused["a"].reason(), "AddressConflict");
        let pools: Vec<_> = accepted.gateways.iter().map(|it| it.pool.len()).collect();
        assert_eq!((accepted.gateways.len(), pools), (2, vec![1, 1]));
    }

    #[test]
    fn a_controller_that_starts_goes_by_what_was_accepted() {
        let mut two = objects(&[
            gateway("a", 0, &["10.0.0.1"]),
            gateway("b", 1, &["10.0.0.1"]),
        ]);
        two.get_mut("b").unwrap().accepted = true;
        assert_eq!(names(&accept(&two, &[], &[])), ["b"]);
    }

    #[test]
    fn a_gateway_that_becomes_wrong_stays_as_it_was() {
        let good = accept(&objects(&[gateway("a", 0, &["10.0.0.1"])]), &[], &[]);
        for pool in ["10.0.0", "192.0.2.1"] {
            let nodes = [("192.0.2.1".parse().unwrap(), "n1")];
            let edited = objects(&[gateway("a", 0, &[pool])]);
            let accepted = accept(&edited, &good.gateways, &nodes);
            assert_eq!(accepted.gateways, good.gateways);
            assert!(accepted.refused.contains_key("a"));
        }
    }

    #[test]
    fn what_a_refused_gateway_kept_goes_to_it_and_not_to_a_newer_one() {
        let good = accept(&objects(&[gateway("a", 0, &["10.0.0.1"])]), &[], &[]);
        let edited = [gateway("a", 0, &["10.0.0"]), gateway("b", 1, &["10.0.0.1"])];
        let accepted = accept(&objects(&edited), &good.gateways, &[]);
        assert_eq!(names(&accepted), ["a"]);
        assert_eq!(accepted.refused["b"].reason(), "AddressConflict");
    }
}
