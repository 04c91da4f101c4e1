//! What the configuration file says of Kubernetes.

use std::time::Duration;

use probe_user::settings::{HumanDuration, Invalid};
use serde::Deserialize;

use super::{FencingChoice, Settings};

/// The controller in a Kubernetes cluster.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct KubernetesSettings {
    /// Whether nodes and gateways are objects there.
    pub enabled: bool,
    /// Where Lease and record are; `None`: where the service account is.
    pub namespace: Option<String>,
    /// What this replica is called in the Lease; `None`: the host name, which is the Pod's.
    pub identity: Option<String>,
    /// Who leads.
    pub lease: LeaseSettings,
    /// The ConfigMap that holds the record.
    pub record: String,
    /// The annotation that gives a node's management addresses, separated by commas, if there is one.
    pub address_annotation: Option<String>,
    /// Which nodes are probed.
    pub nodes: ProbedNodes,
}

impl Default for KubernetesSettings {
    fn default() -> Self {
        Self {
            enabled: false,
            namespace: None,
            identity: None,
            lease: LeaseSettings::default(),
            record: "pulsepath-record".to_owned(),
            address_annotation: None,
            nodes: ProbedNodes::default(),
        }
    }
}

/// The Kubernetes Lease by which replicas agree on who leads.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct LeaseSettings {
    /// Its name.
    pub name: String,
    /// How long a leader that is gone keeps others from leading; whole seconds.
    pub duration: HumanDuration,
    /// How often it is renewed, and looked at.
    pub renew: HumanDuration,
}

impl Default for LeaseSettings {
    fn default() -> Self {
        Self {
            name: "pulsepath-controller".to_owned(),
            duration: HumanDuration(Duration::from_secs(4)),
            renew: HumanDuration(Duration::from_secs(1)),
        }
    }
}

/// Which nodes are probed.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum ProbedNodes {
    /// Every node.
    #[default]
    All,
    /// Those that a gateway selects, or that a consumer asked for.
    Gateways,
}

/// Accepted lengths of the Lease.
const DURATIONS: [HumanDuration; 2] = [
    HumanDuration(Duration::from_secs(1)),
    HumanDuration(Duration::from_secs(60)),
];
/// Accepted times between two renewals.
const SHORTEST_RENEW: HumanDuration = HumanDuration(Duration::from_millis(100));

impl Settings {
    pub(super) fn check_kubernetes(&self) -> Result<(), Invalid> {
        if !self.kubernetes.enabled {
            return Ok(());
        }
        let given = [
            ("nodes", !self.nodes.is_empty()),
            ("gateways", !self.gateways.is_empty()),
            ("state_file", self.state_file.is_some()),
        ];
        if let Some((key, _)) = given.into_iter().find(|(_, given)| *given) {
            let accepted = "must not be given with kubernetes.enabled: the cluster has them";
            return Err(Invalid::new(key, "given", accepted));
        }
        self.check_lease()
    }

    fn check_lease(&self) -> Result<(), Invalid> {
        let LeaseSettings {
            duration, renew, ..
        } = &self.kubernetes.lease;
        let key = "kubernetes.lease.duration";
        let [least, most] = DURATIONS;
        Invalid::unless_within(key, duration, least..=most)?;
        if duration.0.subsec_nanos() != 0 {
            return Err(Invalid::new(key, duration, "must be whole seconds"));
        }
        let longest = HumanDuration(duration.0 / 2);
        Invalid::unless_within("kubernetes.lease.renew", renew, SHORTEST_RENEW..=longest)?;
        let change = HumanDuration(duration.0 + 2 * renew.0 + self.timeout());
        let lease = self.fencing().lease().map(HumanDuration);
        match lease.filter(|lease| self.fencing == FencingChoice::Strict && *lease < change) {
            None => Ok(()),
            Some(lease) => {
                let accepted = format!(
                    "must be {change} (timeout + kubernetes.lease.duration + 2 renewals) or more \
                     with strict fencing: egress would stop whenever the leader changes"
                );
                Err(Invalid::new("lease", lease, accepted))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use probe_user::settings::Validate as _;

    use super::*;

    fn check(text: &str) -> Result<(), String> {
        let text = format!("kubernetes.enabled = true\n{text}");
        let settings: Settings = toml::from_str(&text).unwrap();
        settings.validate().map_err(|error| error.to_string())
    }

    #[test]
    fn the_defaults_are_accepted() {
        check("").unwrap();
        check("fencing = 'strict'").unwrap();
    }

    #[test]
    fn what_the_cluster_has_is_refused_by_name() {
        let cases = [
            ("[[nodes]]\nname = 'n1'\naddresses = []", "`nodes`"),
            ("state_file = '/tmp/state'", "`state_file`"),
            (
                "control.plaintext = true\n[[gateways]]\nname = 'g'\nnode_selector = {}\n\
                 egress_ips = []",
                "`gateways`",
            ),
        ];
        for (text, key) in cases {
            let refused = check(text).unwrap_err();
            assert!(refused.contains(key), "{refused}");
        }
    }

    #[test]
    fn times_that_do_not_fit_each_other_are_refused_by_name() {
        let cases = [
            ("duration = '500ms'", "`kubernetes.lease.duration`"),
            ("duration = '4s 500ms'", "whole seconds"),
            ("renew = '3s'", "`kubernetes.lease.renew`"),
        ];
        for (text, part) in cases {
            let refused = check(&format!("[kubernetes.lease]\n{text}")).unwrap_err();
            assert!(refused.contains(part), "{refused}");
        }
        let refused = check("fencing = 'strict'\nlease = '5s'").unwrap_err();
        assert!(
            refused.contains("`lease`") && refused.contains("7s"),
            "{refused}"
        );
    }
}
