//! What can be known without a record: who owns what, by the gateways' statuses.
//!
//! The record is a ConfigMap that nobody but controllers has a reason to touch. If it is gone all the
//! same, its owners are known from what was last written for people; what else it said is not:
//!
//! - The term. Agents refuse whatever comes from a term, or a version of witnesses, below one that they
//!   have heard of. Both count starts and changes, each of which takes seconds; so the number of seconds
//!   since 1970 is above any that was reached by counting, or by an earlier loss.
//! - Who votes for the owners' leases. Until a node has confirmed what it is told in the new term, there
//!   may be witnesses that nobody knows of and that go on voting for it. A set of two witnesses that
//!   nobody can reach stands for them: as long as it counts for a node, nothing is taken from that node
//!   that it does not give back itself.
//! - Which nodes are drained, or fall too often: that is forgotten.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use kube::ResourceExt as _;
use probe_user::egress::Claim;

use super::resources::{EgressGateway, Eip, GatewayNode};
use crate::api::Timestamp;
use crate::failover::{AddressRecord, Member, Record, Roster};

/// What stands for witnesses that nobody knows of.
const LOST: &str = "(of the lost record)";

/// A record of what `gateways` say, for a controller that finds none.
pub(super) fn rebuilt(now: SystemTime, gateways: &[EgressGateway]) -> Record {
    let addresses: BTreeMap<_, _> = gateways.iter().flat_map(owned).collect();
    if addresses.is_empty() && gateways.iter().all(|gateway| gateway.status.is_none()) {
        // There never was one.
        return Record::default();
    }
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let term = u32::try_from(since.as_secs()).unwrap_or(u32::MAX - 1);
    let owner = |address: &AddressRecord| address.owner.clone();
    Record {
        version: 0,
        term,
        epochs: addresses
            .values()
            .filter_map(owner)
            .map(|owner| (owner, u64::from(term) << 32))
            .collect(),
        rosters: lost_rosters(u64::from(term)),
        addresses,
        ..Record::default()
    }
}

fn lost_rosters(version: u64) -> Vec<Roster> {
    let lost = || Member {
        node: LOST.to_owned(),
        instance: 0,
    };
    let nobody = Roster {
        version: version + 1,
        members: Vec::new(),
    };
    let unknown = Roster {
        version,
        members: vec![lost(), lost()],
    };
    vec![unknown, nobody]
}

fn owned(gateway: &EgressGateway) -> Vec<(IpAddr, AddressRecord)> {
    let name = gateway.name_any();
    let status = gateway.status.iter();
    let eip = |node: &GatewayNode, eip: &Eip| {
        let address = eip.ipv4.as_ref().or(eip.ipv6.as_ref())?;
        let record = AddressRecord {
            gateway: name.clone(),
            owner: Some(node.name.clone()),
            releasing: None,
            claim: Claim::Failover,
            since: eip.since.unwrap_or(Timestamp(UNIX_EPOCH)),
            cause: None,
            home: None,
        };
        Some((address.parse().ok()?, record))
    };
    status
        .flat_map(|status| &status.node_list)
        .flat_map(|node| {
            node.eips
                .iter()
                .filter_map(|it| eip(node, it))
                .collect::<Vec<_>>()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::clock::Reading;
    use crate::daemon::Settings;
    use crate::failover::{NodeConfig, Observation, Output, Planner, plain_gateway};
    use crate::health::State;
    use crate::kubernetes::resources::{EgressGatewaySpec, EgressGatewayStatus, NodeReadiness};

    const ADDRESS: &str = "192.0.2.1";

    /// A gateway whose address `n1` owns.
    fn gateway() -> EgressGateway {
        let mut gateway = EgressGateway::new("web", EgressGatewaySpec::default());
        gateway.status = Some(EgressGatewayStatus {
            node_list: vec![GatewayNode {
                name: "n1".to_owned(),
                status: NodeReadiness::Ready,
                eips: vec![Eip {
                    ipv4: Some(ADDRESS.to_owned()),
                    ..Eip::default()
                }],
            }],
            ..EgressGatewayStatus::default()
        });
        gateway
    }

    fn address() -> IpAddr {
        ADDRESS.parse().unwrap()
    }

    #[test]
    fn owners_are_those_that_the_statuses_name() {
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let record = rebuilt(now, &[gateway()]);
        assert_eq!(record.addresses[&address()].owner.as_deref(), Some("n1"));
        assert_eq!(record.term, 1_800_000_000);
        assert!(record.epochs.contains_key("n1"));
    }

    #[test]
    fn gateways_without_a_status_are_a_new_clusters() {
        let fresh = EgressGateway::new("web", EgressGatewaySpec::default());
        assert_eq!(rebuilt(SystemTime::now(), &[fresh]), Record::default());
    }

    /// A controller that goes on from `record`, for a minute in which `n1` is not heard, and `n2` and
    /// `n3` are; who owns the address then.
    fn owner_after_a_minute_of_silence(record: &Record) -> Option<String> {
        let settings: Settings = toml::from_str("control.plaintext = true").unwrap();
        let mut now = Reading::take();
        let mut planner = Planner::new(settings.planner());
        planner.restore(now, record);
        let node = |name: &str| (name.to_owned(), NodeConfig::default());
        planner.handle_gateways(now, vec![plain_gateway("web", &[ADDRESS])]);
        planner.handle_nodes(now, ["n1", "n2", "n3"].map(node).into());
        for _ in 0..600 {
            now.instant += Duration::from_millis(100);
            now.wall += Duration::from_millis(100);
            for (node, state) in [
                ("n1", State::Unreachable),
                ("n2", State::Available),
                ("n3", State::Available),
            ] {
                let observation = Observation {
                    state,
                    since: now.wall,
                    heard: (state == State::Available).then_some(now.instant),
                    path_down: false,
                };
                planner.handle_state(now, node, observation);
            }
            planner.poll(now);
            while let Some(output) = planner.poll_output() {
                match output {
                    Output::Record(record) => planner.handle_recorded(now, record.version),
                    Output::Renew(_) => planner.handle_renewed(&BTreeMap::new()),
                    Output::Apply { node, desired } => {
                        confirm(&mut planner, now, &node, desired.epoch);
                    }
                    Output::Witness { .. } | Output::Event(_) => {}
                }
            }
        }
        let view = planner.view(now.instant);
        view.gateways[0].addresses[0].owner.clone()
    }

    fn confirm(planner: &mut Planner, now: Reading, node: &Arc<str>, epoch: u64) {
        if **node != *"n1" {
            planner.handle_report(now, node, epoch, u64::MAX, &[]);
        }
    }

    #[test]
    fn a_silent_owner_keeps_its_address_as_long_as_unknown_witnesses_may_vote_for_it() {
        let record = rebuilt(SystemTime::now(), &[gateway()]);
        let owner = owner_after_a_minute_of_silence(&record);
        assert_eq!(owner.as_deref(), Some("n1"));
        // Were there no witnesses, the end of its lease would be known.
        let alone = Record {
            rosters: Vec::new(),
            ..record
        };
        assert_ne!(
            owner_after_a_minute_of_silence(&alone).as_deref(),
            Some("n1")
        );
    }
}
