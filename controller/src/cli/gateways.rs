//! Who owns which egress IP, as a table.

use std::time::{Duration, SystemTime};

use probe_user::settings::HumanDuration;

use super::time;
use crate::api::{EgressIp, Failover, Gateway, GatewayList};

const HEADINGS: [&str; 6] = ["GATEWAY", "EGRESS IP", "OWNER", "FOR", "AGENT SAYS", "NOTE"];

/// The lines of the table, and below it what deserves attention; nothing if there are no gateways.
pub(super) fn lines(list: &GatewayList, now: SystemTime) -> Vec<String> {
    if list.gateways.is_empty() {
        return Vec::new();
    }
    let rows = list.gateways.iter().flat_map(|gateway| {
        let addresses = gateway.addresses.iter();
        addresses.map(|address| row(gateway, address, now))
    });
    let rows: Vec<_> = [HEADINGS.map(str::to_owned)]
        .into_iter()
        .chain(rows)
        .collect();
    let mut lines = vec![String::new()];
    lines.extend(align(&rows));
    lines.extend(notes(list));
    lines
}

fn row(gateway: &Gateway, address: &EgressIp, now: SystemTime) -> [String; HEADINGS.len()] {
    let dash = || "-".to_owned();
    let said = address.report.as_ref().map(|report| {
        let more = report.duplicate_mac.as_ref().or(report.error.as_ref());
        let more = more.map_or(String::new(), |more| format!(" ({more})"));
        format!("{}{more}", report.state.as_str())
    });
    let note = address.held.as_ref().or(address.unassigned.as_ref());
    [
        gateway.name.clone(),
        address.address.to_string(),
        address.owner.clone().unwrap_or_else(dash),
        time::words(now.duration_since(address.since.0).unwrap_or_default()),
        said.unwrap_or_else(dash),
        note.cloned().unwrap_or_default(),
    ]
}

fn notes(list: &GatewayList) -> Vec<String> {
    let failover = &list.failover;
    let disabled = "failover is disabled: nothing is moved".to_owned();
    let held = failover.held.as_ref();
    let drained = failover.drained.iter();
    (!failover.enabled)
        .then_some(disabled)
        .into_iter()
        .chain(lease(failover))
        .chain(held.map(|reason| format!("moves are held: {reason}")))
        .chain(drained.map(|node| format!("{node} is drained")))
        .collect()
}

/// Who extends nodes' leases, if they have any.
fn lease(failover: &Failover) -> Option<String> {
    let lasts = HumanDuration(Duration::from_millis(failover.lease_ms?));
    let witnesses: Vec<&str> = failover.witnesses.iter().map(|it| &*it.node).collect();
    let by = match &witnesses[..] {
        [] => "the controller alone".to_owned(),
        some => format!("the controller and by witnesses: {}", some.join(", ")),
    };
    Some(format!("leases of {lasts}, extended by {by}"))
}

/// Columns as wide as their widest cell.
fn align<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    let widths: [usize; N] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or_default()
    });
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths);
        let padded: Vec<_> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        padded.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Report, ReportState, Timestamp, Witness};

    fn address(address: &str, owner: Option<&str>) -> EgressIp {
        EgressIp {
            address: address.parse().unwrap(),
            owner: owner.map(str::to_owned),
            since: Timestamp(SystemTime::UNIX_EPOCH),
            unassigned: None,
            cause: None,
            phase: None,
            held: None,
            report: None,
        }
    }

    fn witness(node: &str) -> Witness {
        Witness {
            node: node.to_owned(),
            instance: "00000000000000ff".to_owned(),
            silent_ms: 0,
        }
    }

    fn list(addresses: Vec<EgressIp>) -> GatewayList {
        GatewayList {
            failover: Failover {
                enabled: true,
                fencing: "quorum".to_owned(),
                lease_ms: Some(1_400),
                witnesses: ["n1", "n2"].map(witness).to_vec(),
                no_quorum: 0,
                term: 1,
                held: None,
                recording: false,
                drained: vec!["n3".to_owned()],
            },
            gateways: vec![Gateway {
                name: "web".to_owned(),
                cluster_default: false,
                candidates: Vec::new(),
                addresses,
            }],
        }
    }

    fn shown(addresses: Vec<EgressIp>) -> Vec<String> {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(5);
        lines(&list(addresses), now)
    }

    #[test]
    fn owners_and_what_their_agents_say_are_in_columns() {
        let owned = EgressIp {
            report: Some(Report {
                state: ReportState::Duplicate,
                duplicate_mac: Some("02:00:00:00:00:09".to_owned()),
                error: None,
            }),
            ..address("10.78.0.100", Some("n1"))
        };
        let unassigned = EgressIp {
            unassigned: Some("no candidate is AVAILABLE".to_owned()),
            ..address("fd78::100", None)
        };
        let lines = shown(vec![owned, unassigned]);
        let expected = [
            "",
            "GATEWAY  EGRESS IP    OWNER  FOR    AGENT SAYS                     NOTE",
            "web      10.78.0.100  n1     5.0 s  DUPLICATE (02:00:00:00:00:09)",
            "web      fd78::100    -      5.0 s  -                              no candidate is AVAILABLE",
            "leases of 1s 400ms, extended by the controller and by witnesses: n1, n2",
            "n3 is drained",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn without_gateways_nothing_is_shown() {
        let nothing = GatewayList {
            gateways: Vec::new(),
            ..list(Vec::new())
        };
        assert_eq!(
            lines(&nothing, SystemTime::UNIX_EPOCH),
            Vec::<String>::new()
        );
    }
}
