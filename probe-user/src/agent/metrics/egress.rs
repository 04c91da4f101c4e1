//! Metrics of the node's egress IPs.

use std::fmt;

use super::Metrics;
use crate::egress::{AddressReport, AddressState, Status};

impl Metrics<'_> {
    pub(super) fn egress(&mut self, status: &Status) -> fmt::Result {
        let epoch = [(vec![], status.applied_epoch as f64)];
        self.gauges("egress_applied_epoch", "Assignment epoch in force", epoch)?;
        self.addresses(&status.addresses)?;
        let problems = [(vec![], status.problems.len() as f64)];
        let help = "What is wrong on the node besides single egress IPs; the log says what";
        self.gauges("egress_problems", help, problems)?;
        let counters = status.counters;
        for (name, help, value) in [
            (
                "egress_ips_claimed",
                "Egress IPs put on an interface",
                counters.added,
            ),
            (
                "egress_ips_released",
                "Egress IPs taken off",
                counters.removed,
            ),
            (
                "egress_announcements",
                "Gratuitous ARP and unsolicited NA sent",
                counters.announcements,
            ),
            (
                "egress_conflicts",
                "Messages of others who claim an egress IP of the node",
                counters.conflicts,
            ),
            (
                "egress_flows_deleted",
                "Conntrack entries of released egress IPs deleted",
                counters.flushed,
            ),
            ("egress_failures", "Steps that failed", counters.failures),
        ] {
            self.counters(name, help, [(vec![], value)])?;
        }
        Ok(())
    }

    fn addresses(&mut self, addresses: &[AddressReport]) -> fmt::Result {
        let named: Vec<_> = addresses.iter().map(Named::new).collect();
        let states = named
            .iter()
            .map(|it| (vec![("ip", it.ip.as_str()), ("state", it.state)], 1.0));
        self.gauges(
            "egress_ip_state",
            "The state of each egress IP of the node",
            states,
        )?;
        let duplicates = named.iter().filter_map(|it| {
            let mac = it.duplicate.as_deref()?;
            Some((vec![("ip", it.ip.as_str()), ("mac", mac)], 1.0))
        });
        let help = "Egress IPs that somebody else answers for";
        self.gauges("egress_ip_duplicate", help, duplicates)
    }
}

/// An address with its state as labels.
struct Named {
    ip: String,
    state: &'static str,
    duplicate: Option<String>,
}

impl Named {
    fn new(report: &AddressReport) -> Self {
        Self {
            ip: report.address.to_string(),
            state: report.state.label(),
            duplicate: match report.state {
                AddressState::Duplicate { mac } => Some(mac_in_words(mac)),
                _ => None,
            },
        }
    }
}

fn mac_in_words(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}
