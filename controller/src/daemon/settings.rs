//! The configuration file.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use probe_ebpf::wire::PROBE_PORT;
use probe_user::logging::LogFormat;
use probe_user::session::ProbeSettings;
use probe_user::settings::{HumanDuration, Invalid, Validate};
use serde::Deserialize;

use super::cluster::KubernetesSettings;
use super::control::ControlSettings;
use super::fencing::{FencingChoice, WitnessSettings};
use super::gateways::{FailoverSettings, GatewaySettings};
use super::publish::{GrpcSettings, ServiceSettings, check_services};
use crate::health::HealthSettings;
use crate::monitor::MonitorSettings;

/// Accepted periods.
const PERIODS: [HumanDuration; 2] = [
    HumanDuration(Duration::from_millis(10)),
    HumanDuration(Duration::from_secs(60)),
];
/// The longest timeout: what has to be remembered of each node grows with it.
const LONGEST_TIMEOUT: HumanDuration = HumanDuration(Duration::from_secs(3600));
/// How many periods a reply is waited for at most: what has to be remembered grows with it.
const LONGEST_WINDOW: u32 = 64;

/// The configuration of a controller.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The cluster key, mode 0600.
    pub cluster_key_file: PathBuf,
    /// Defaults for `period` and `timeout`.
    pub profile: Profile,
    /// Time between two probes of a node.
    pub period: Option<HumanDuration>,
    /// Silence after which a node is UNREACHABLE; 0: monitor nothing, call every node AVAILABLE.
    pub timeout: Option<HumanDuration>,
    /// UNAVAILABLE for longer becomes UNREACHABLE; 0: never.
    pub unavailable_timeout: HumanDuration,
    /// UNAVAILABLE for so long is announced.
    pub announce_after: HumanDuration,
    /// UDP port of the nodes' reflectors.
    pub port: u16,
    /// Where states are kept over a restart; `None`: where standalone controllers do.
    pub state_file: Option<PathBuf>,
    /// The HTTP interface.
    pub http: Http,
    /// The log.
    pub log: Log,
    /// The nodes.
    pub nodes: Vec<NodeSettings>,
    /// The gateways.
    pub gateways: Vec<GatewaySettings>,
    /// By which rules egress IPs move.
    pub failover: FailoverSettings,
    /// How it is made sure that an old owner is silent.
    pub fencing: FencingChoice,
    /// How long a lease lasts; `None`: the default of how it is fenced.
    pub lease: Option<HumanDuration>,
    /// Who extends leases beside the controller.
    pub witnesses: WitnessSettings,
    /// The control channel to the agents.
    pub control: ControlSettings,
    /// The gRPC interface.
    pub grpc: GrpcSettings,
    /// Groups of nodes of which one is picked.
    pub services: Vec<ServiceSettings>,
    /// The controller in a Kubernetes cluster.
    pub kubernetes: KubernetesSettings,
}

/// Defaults for `period` and `timeout`.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Probes every 200 ms, timeout 1 s.
    #[default]
    Default,
    /// Probes every 50 ms, timeout 150 ms.
    Fast,
    /// Probes every second, timeout 10 s.
    Calm,
}

impl Profile {
    const fn period(self) -> Duration {
        Duration::from_millis(match self {
            Self::Default => 200,
            Self::Fast => 50,
            Self::Calm => 1_000,
        })
    }

    const fn timeout(self) -> Duration {
        Duration::from_millis(match self {
            Self::Default => 1_000,
            Self::Fast => 150,
            Self::Calm => 10_000,
        })
    }
}

/// The HTTP interface.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    /// Where it listens.
    pub listen: SocketAddr,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 9865)),
        }
    }
}

/// The log.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// How lines are written.
    pub format: LogFormat,
}

/// A node as the file gives it.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct NodeSettings {
    /// Its name, unique.
    pub name: String,
    /// Its management addresses, as text: one that is wrong must not take the others down.
    pub addresses: Vec<String>,
    /// For people and selectors.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Where its tunnels end, if not at its management addresses.
    #[serde(default)]
    pub tunnel_addresses: Vec<IpAddr>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cluster_key_file: "/etc/pulsepath/cluster.key".into(),
            profile: Profile::default(),
            period: None,
            timeout: None,
            unavailable_timeout: HumanDuration::default(),
            announce_after: HumanDuration(Duration::from_secs(5)),
            port: PROBE_PORT,
            state_file: None,
            http: Http::default(),
            log: Log::default(),
            nodes: Vec::new(),
            gateways: Vec::new(),
            failover: FailoverSettings::default(),
            fencing: FencingChoice::default(),
            lease: None,
            witnesses: WitnessSettings::default(),
            control: ControlSettings::default(),
            grpc: GrpcSettings::default(),
            services: Vec::new(),
            kubernetes: KubernetesSettings::default(),
        }
    }
}

impl Settings {
    /// Time between two probes of a node.
    pub fn period(&self) -> Duration {
        self.period.map_or(self.profile.period(), |period| period.0)
    }

    /// Silence after which a node is UNREACHABLE; zero: nothing is monitored.
    pub fn timeout(&self) -> Duration {
        self.timeout
            .map_or(self.profile.timeout(), |timeout| timeout.0)
    }

    /// Where a standalone controller keeps states over a restart.
    pub fn state_file(&self) -> PathBuf {
        let default = || "/var/lib/pulsepath/controller.json".into();
        self.state_file.clone().unwrap_or_else(default)
    }

    /// How nodes are probed and judged.
    pub fn monitor(&self) -> MonitorSettings {
        let period = self.period();
        MonitorSettings {
            probe: ProbeSettings {
                period,
                reply_window: self.timeout().clamp(period, period * LONGEST_WINDOW),
                port: self.port,
            },
            health: HealthSettings {
                timeout: self.timeout(),
                unavailable_timeout: self.unavailable_timeout.0,
                announce_after: self.announce_after.0,
            },
            ask: matches!(self.control.security(), Ok(Some(_))),
        }
    }

    fn check_timing(&self) -> Result<(), Invalid> {
        let (period, timeout) = (HumanDuration(self.period()), HumanDuration(self.timeout()));
        Invalid::unless_within("period", &period, PERIODS[0]..=PERIODS[1])?;
        let shortest = HumanDuration(period.0 * 2);
        if !timeout.0.is_zero() && !(shortest..=LONGEST_TIMEOUT).contains(&timeout) {
            let accepted = format!(
                "must be between {shortest} (twice the period) and {LONGEST_TIMEOUT}, \
                 or 0 for no monitoring"
            );
            return Err(Invalid::new("timeout", timeout, accepted));
        }
        Ok(())
    }

    /// Whether names, and addresses as far as they are addresses, are unique.
    fn check_unique(&self) -> Result<(), Invalid> {
        let mut names = HashMap::new();
        let mut owners: HashMap<IpAddr, &str> = HashMap::new();
        for (index, node) in self.nodes.iter().enumerate() {
            let key = format!("nodes[{index}].name");
            if node.name.is_empty() || node.name.contains(char::is_control) {
                let accepted = "must not be empty or hold control characters";
                return Err(Invalid::new(key, format!("{:?}", node.name), accepted));
            }
            if let Some(first) = names.insert(&node.name, index) {
                let accepted = format!("must be unique; nodes[{first}] has it, too");
                return Err(Invalid::new(key, &node.name, accepted));
            }
            for address in &node.addresses {
                let Ok(address) = address.parse::<IpAddr>() else {
                    continue;
                };
                if let Some(owner) = owners.insert(address.to_canonical(), &node.name) {
                    let key = format!("nodes[{index}].addresses");
                    let accepted = format!("must be unique; node {owner} has it, too");
                    return Err(Invalid::new(key, address, accepted));
                }
            }
        }
        Ok(())
    }
}

impl Validate for Settings {
    fn validate(&self) -> Result<(), Invalid> {
        self.check_timing()?;
        if self.port == 0 {
            return Err(Invalid::new(
                "port",
                self.port,
                "must be between 1 and 65535",
            ));
        }
        self.check_unique()?;
        self.check_failover()?;
        check_services(&self.services)?;
        self.check_kubernetes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Settings {
        toml::from_str(text).unwrap()
    }

    fn refusal(text: &str) -> String {
        parse(text).validate().unwrap_err().to_string()
    }

    fn timing(text: &str) -> (Duration, Duration) {
        let settings = parse(text);
        settings.validate().unwrap();
        (settings.period(), settings.timeout())
    }

    fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn profiles_give_defaults_that_single_values_override() {
        assert_eq!(timing(""), (millis(200), millis(1000)));
        assert_eq!(timing("profile = 'fast'"), (millis(50), millis(150)));
        assert_eq!(timing("profile = 'calm'"), (millis(1000), millis(10_000)));
        let mixed = timing("profile = 'fast'\ntimeout = '200ms'");
        assert_eq!(mixed, (millis(50), millis(200)));
    }

    #[test]
    fn a_period_out_of_range_is_refused_with_the_range() {
        for period in ["9ms", "61s", "0"] {
            let error = refusal(&format!("period = '{period}'\ntimeout = '0'"));
            assert!(error.contains("`period`"), "{error}");
            assert!(error.contains("between 10ms and 1m"), "{error}");
        }
    }

    #[test]
    fn a_timeout_below_two_periods_is_refused_with_the_range() {
        let error = refusal("period = '100ms'\ntimeout = '199ms'");
        assert!(error.contains("`timeout` = 199ms"), "{error}");
        assert!(
            error.contains("between 200ms (twice the period) and 1h"),
            "{error}"
        );
        timing("period = '100ms'\ntimeout = '200ms'");
    }

    #[test]
    fn a_period_alone_is_checked_against_the_profiles_timeout() {
        assert!(refusal("period = '600ms'").contains("`timeout` = 1s"));
    }

    #[test]
    fn a_timeout_of_zero_disables_monitoring() {
        assert_eq!(timing("timeout = 0").1, Duration::ZERO);
    }

    #[test]
    fn names_and_addresses_are_unique() {
        let node = |name: &str, address: &str| {
            format!("[[nodes]]\nname = '{name}'\naddresses = ['{address}']\n")
        };
        let twice = node("n1", "10.0.0.1") + &node("n1", "10.0.0.2");
        let error = refusal(&twice);
        assert!(error.contains("`nodes[1].name` = n1"), "{error}");
        let shared = node("n1", "10.0.0.1") + &node("n2", "::ffff:10.0.0.1");
        let error = refusal(&shared);
        assert!(error.contains("`nodes[1].addresses`"), "{error}");
        assert!(error.contains("node n1 has it"), "{error}");
    }

    #[test]
    fn a_bad_address_is_left_to_whoever_knows_the_nodes_before() {
        parse("[[nodes]]\nname = 'n1'\naddresses = ['10.0.0']")
            .validate()
            .unwrap();
    }
}
