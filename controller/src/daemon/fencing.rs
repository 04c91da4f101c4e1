//! What the configuration file says of leases and witnesses.

use std::time::Duration;

use probe_ebpf::maps::MAX_WITNESSES;
use probe_user::settings::{HumanDuration, Invalid};
use serde::Deserialize;

use super::Settings;
use crate::failover::{self, Fencing};

/// How it is made sure that an old owner is silent.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum FencingChoice {
    /// It is not: addresses move as soon as their owner is UNREACHABLE.
    None,
    /// By a lease that the controller alone extends: without a controller nobody uses an address for
    /// longer than that.
    Strict,
    /// By a lease that witnesses extend, too. Fewer than three nodes: as `strict`.
    #[default]
    Quorum,
}

/// Who extends leases beside the controller.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct WitnessSettings {
    /// How many each node has, as far as there are other nodes; odd.
    pub count: usize,
    /// Silence after which a witness is replaced.
    pub replace_after: HumanDuration,
}

impl Default for WitnessSettings {
    fn default() -> Self {
        Self {
            count: 5,
            replace_after: HumanDuration(Duration::from_secs(60)),
        }
    }
}

/// How long a lease lasts that the controller alone extends, unless the file says it: long enough to
/// restart the controller.
const STRICT_LEASE: Duration = Duration::from_secs(10);
/// The longest lease: a move may have to wait for as long.
const LONGEST_LEASE: Duration = Duration::from_secs(600);
/// Witnesses are told again every few seconds: none that is well is silent for longer than that.
const REPLACE_AFTER: [HumanDuration; 2] = [
    HumanDuration(Duration::from_secs(15)),
    HumanDuration(Duration::from_secs(86_400)),
];

impl Settings {
    pub(crate) fn fencing(&self) -> Fencing {
        let alone = self.lease.map_or(STRICT_LEASE, |lease| lease.0);
        match self.fencing {
            FencingChoice::None => Fencing::None,
            // Nobody would extend a lease.
            FencingChoice::Quorum if self.timeout().is_zero() => Fencing::None,
            FencingChoice::Strict => Fencing::Strict { lease: alone },
            FencingChoice::Quorum => Fencing::Quorum {
                lease: self.lease.map_or(self.shortest_lease(), |lease| lease.0),
                alone: alone.max(self.shortest_lease()),
                witnesses: failover::WitnessSettings {
                    count: self.witnesses.count,
                    patience: self.witnesses.replace_after.0,
                },
            },
        }
    }

    /// A lease has to outlast the silence that is not worth a move.
    fn shortest_lease(&self) -> Duration {
        self.timeout() + 2 * self.period()
    }

    pub(crate) fn check_fencing(&self) -> Result<(), Invalid> {
        if self.fencing == FencingChoice::Strict && self.timeout().is_zero() {
            let accepted = "must be `none` where `timeout` is 0: nobody would extend a lease";
            return Err(Invalid::new("fencing", "strict", accepted));
        }
        let shortest = self.shortest_lease();
        let lease = self.fencing().lease();
        if let Some(lease) = lease.filter(|it| !(shortest..=LONGEST_LEASE).contains(it)) {
            let [shortest, longest] = [shortest, LONGEST_LEASE].map(HumanDuration);
            let accepted = format!("must be from timeout + 2 periods ({shortest}) to {longest}");
            return Err(Invalid::new("lease", HumanDuration(lease), accepted));
        }
        let WitnessSettings {
            count,
            replace_after,
        } = &self.witnesses;
        if count % 2 == 0 || *count > MAX_WITNESSES {
            let accepted = format!("must be odd, and {MAX_WITNESSES} at most");
            return Err(Invalid::new("witnesses.count", count, accepted));
        }
        let [least, most] = REPLACE_AFTER;
        Invalid::unless_within("witnesses.replace_after", replace_after, least..=most)
    }
}

#[cfg(test)]
mod tests {
    use probe_user::settings::Validate as _;

    use super::*;

    fn settings(text: &str) -> Settings {
        toml::from_str(text).unwrap()
    }

    fn refusal(text: &str) -> String {
        settings(text).validate().unwrap_err().to_string()
    }

    #[test]
    fn a_lease_outlasts_the_timeout() {
        for fencing in ["strict", "quorum"] {
            let refused = refusal(&format!("fencing = '{fencing}'\nlease = '1200ms'"));
            assert!(
                refused.contains("`lease`") && refused.contains("1s 400ms"),
                "{refused}"
            );
            let text = format!("fencing = '{fencing}'\nlease = '1400ms'");
            settings(&text).validate().unwrap();
            let lease = Duration::from_millis(1400);
            assert_eq!(settings(&text).fencing().lease(), Some(lease));
        }
    }

    #[test]
    fn a_lease_that_the_controller_alone_extends_is_long_enough_to_restart_it_by_default() {
        let lease = |text| settings(text).fencing().lease();
        assert_eq!(lease("fencing = 'strict'"), Some(STRICT_LEASE));
        let quorum = settings("fencing = 'quorum'").fencing();
        assert_eq!(quorum.lease(), Some(Duration::from_millis(1400)));
        assert_eq!(quorum.among(2).lease(), Some(STRICT_LEASE));
    }

    #[test]
    fn a_lease_outlasts_the_timeout_whatever_that_is() {
        for fencing in ["quorum", "strict"] {
            let text = format!("fencing = '{fencing}'\nprofile = 'calm'\nlease = '12s'");
            settings(&text).validate().unwrap();
        }
        settings("fencing = 'quorum'\nprofile = 'calm'")
            .validate()
            .unwrap();
        let refused = refusal("fencing = 'strict'\nprofile = 'calm'");
        assert!(refused.contains("`lease`"), "{refused}");
    }

    #[test]
    fn without_monitoring_nobody_could_extend_a_lease() {
        let refused = refusal("timeout = '0s'\nfencing = 'strict'");
        assert!(refused.contains("`fencing`"), "{refused}");
        let quorum = settings("timeout = '0s'\nfencing = 'quorum'");
        quorum.validate().unwrap();
        assert_eq!(quorum.fencing(), Fencing::None);
    }

    #[test]
    fn witnesses_are_an_odd_number_that_the_kernel_has_room_for() {
        for count in [0, 4, 9] {
            let refused = refusal(&format!("witnesses.count = {count}"));
            assert!(refused.contains("`witnesses.count`"), "{refused}");
        }
        settings("witnesses.count = 7").validate().unwrap();
        let refused = refusal("witnesses.replace_after = '1s'");
        assert!(refused.contains("`witnesses.replace_after`"), "{refused}");
    }
}
