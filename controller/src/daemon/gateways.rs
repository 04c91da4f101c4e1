//! What the configuration file says of gateways, failover and the control channel.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use ipnet::IpNet;
use probe_user::settings::{HumanDuration, Invalid};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

use super::Settings;
use crate::failover::{
    DampingSettings, Gateway, GuardSettings, PlannerSettings, Pool, check_gateways, share_sources,
};

/// A gateway as the file gives it.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct GatewaySettings {
    /// Its name, unique.
    pub name: String,
    /// Labels that a node needs to be a candidate; an empty table selects every node.
    pub node_selector: BTreeMap<String, String>,
    /// Its egress IPs: addresses, ranges and prefixes.
    pub egress_ips: Vec<String>,
    /// From which of them IPv4 traffic leaves; unset: each source has its own.
    pub default_ipv4: Option<Ipv4Addr>,
    /// The same for IPv6.
    pub default_ipv6: Option<Ipv6Addr>,
    /// Whether it serves only those of its sources that no other gateway names.
    #[serde(default)]
    pub cluster_default: bool,
    /// Prefixes whose traffic leaves from its addresses.
    #[serde(default)]
    pub sources: Vec<String>,
    /// Where nodes configure its addresses; unset: on the interface whose subnet holds them.
    pub interface: Option<String>,
    /// Its addresses are routed to the nodes, not resolved on a link.
    #[serde(default)]
    pub routed: bool,
    /// At most so many of its addresses on one node.
    pub max_per_node: Option<usize>,
}

/// By which rules addresses move.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct FailoverSettings {
    /// Otherwise states are shown, and nothing is moved.
    pub enabled: bool,
    /// Whether an address goes back to the node that it was moved away from.
    pub failback: Failback,
    /// Share of the nodes that may become unreachable at once before the controller suspects itself.
    pub max_unreachable: f64,
    /// What becomes of nodes that keep falling.
    pub damping: Damping,
}

impl Default for FailoverSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            failback: Failback::default(),
            max_unreachable: 0.55,
            damping: Damping::default(),
        }
    }
}

/// `never`, or how long a node must have been AVAILABLE until its addresses come back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failback(pub Option<Duration>);

impl<'de> Deserialize<'de> for Failback {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "never" {
            return Ok(Self(None));
        }
        let hold: HumanDuration = text.parse().map_err(|_| {
            D::Error::custom(format!("{text:?} is neither \"never\" nor a duration"))
        })?;
        Ok(Self(Some(hold.0)))
    }
}

/// See [`DampingSettings`].
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct Damping {
    /// So many falls within `window` damp a node; 0: never.
    pub count: usize,
    /// See `count`.
    pub window: HumanDuration,
    /// How long a damped node must stay AVAILABLE.
    pub hold: HumanDuration,
    /// What `hold` doubles up to.
    pub hold_max: HumanDuration,
}

impl Default for Damping {
    fn default() -> Self {
        Self {
            count: 3,
            window: HumanDuration(Duration::from_secs(300)),
            hold: HumanDuration(Duration::from_secs(30)),
            hold_max: HumanDuration(Duration::from_secs(600)),
        }
    }
}

impl Settings {
    /// The gateways.
    ///
    /// # Errors
    ///
    /// Names the key of what is wrong.
    pub fn gateways(&self) -> Result<Vec<Gateway>, Invalid> {
        let numbered = self.gateways.iter().enumerate();
        let mut gateways: Vec<Gateway> = numbered
            .map(|(index, gateway)| gateway.parse(index))
            .collect::<Result<_, _>>()?;
        let addresses = self.nodes.iter().flat_map(|node| {
            let parsed = node
                .addresses
                .iter()
                .filter_map(|text| text.parse::<IpAddr>().ok());
            parsed.map(|address| (address.to_canonical(), node.name.as_str()))
        });
        check_gateways(&gateways, addresses)
            .map_err(|error| Invalid::new("gateways", error, "must not collide"))?;
        share_sources(&mut gateways);
        Ok(gateways)
    }

    /// By which rules addresses move.
    pub fn planner(&self) -> PlannerSettings {
        let (period, timeout) = (self.period(), self.timeout());
        let Damping {
            count,
            window,
            hold,
            hold_max,
        } = &self.failover.damping;
        // Without monitoring nobody answers, and nobody is expected to. Otherwise: when the first
        // node has been silent for the timeout, the others have been for a period less.
        let silence = match timeout.is_zero() {
            true => Duration::MAX,
            false => timeout.saturating_sub(period * 5 / 4),
        };
        PlannerSettings {
            enabled: self.failover.enabled,
            failback: self.failover.failback.0,
            settle: timeout + 2 * period,
            guard: GuardSettings {
                max_unreachable: self.failover.max_unreachable,
                window: timeout + period,
                silence,
            },
            damping: DampingSettings {
                count: *count,
                window: window.0,
                hold: hold.0,
                hold_max: hold_max.0,
            },
            fencing: self.fencing(),
        }
    }

    pub(crate) fn check_failover(&self) -> Result<(), Invalid> {
        let share = self.failover.max_unreachable;
        Invalid::unless_within("failover.max_unreachable", &share, 0.0..=1.0)?;
        let Damping { hold, hold_max, .. } = &self.failover.damping;
        if hold > hold_max {
            let accepted = format!("must not be more than failover.damping.hold_max ({hold_max})");
            return Err(Invalid::new("failover.damping.hold", hold, accepted));
        }
        self.check_fencing()?;
        if self.control.port == 0 {
            return Err(Invalid::new(
                "control.port",
                0,
                "must be between 1 and 65535",
            ));
        }
        self.gateways()?;
        let channel = self.control.security()?.is_some();
        if !channel && self.failover.enabled && !self.gateways.is_empty() {
            let accepted = "gateways need control.ca_file, cert_file and key_file (or plaintext), \
                            or failover.enabled = false";
            return Err(Invalid::new("control", "unset", accepted));
        }
        Ok(())
    }
}

impl GatewaySettings {
    fn parse(&self, index: usize) -> Result<Gateway, Invalid> {
        let key = |part: &str| format!("gateways[{index}].{part}");
        if self.name.is_empty() || self.name.contains(char::is_control) {
            let accepted = "must not be empty or hold control characters";
            return Err(Invalid::new(
                key("name"),
                format!("{:?}", self.name),
                accepted,
            ));
        }
        let pool = Pool::parse(&self.egress_ips)
            .map_err(|error| Invalid::new(key("egress_ips"), error, "must be egress IPs"))?;
        if self.max_per_node == Some(0) {
            return Err(Invalid::new(key("max_per_node"), 0, "must be at least 1"));
        }
        if self.cluster_default && self.sources.is_empty() {
            let accepted = "needs sources, of which it serves what no other gateway names";
            return Err(Invalid::new(key("cluster_default"), true, accepted));
        }
        let sources = self
            .sources
            .iter()
            .map(|text| parse_source(text, key("sources")));
        let defaults = [
            self.default_ipv4.map(IpAddr::V4),
            self.default_ipv6.map(IpAddr::V6),
        ];
        Ok(Gateway {
            name: self.name.clone(),
            selector: self.node_selector.clone().into(),
            pool,
            defaults: defaults.into_iter().flatten().collect(),
            cluster_default: self.cluster_default,
            sources: sources.collect::<Result<_, _>>()?,
            except: Vec::new(),
            interface: self.interface.clone(),
            routed: self.routed,
            max_per_node: self.max_per_node,
        })
    }
}

pub(crate) fn parse_source(text: &str, key: impl Display) -> Result<IpNet, Invalid> {
    let refused = |accepted: &str| Invalid::new(key.to_string(), format!("{text:?}"), accepted);
    let prefix: IpNet = match text.parse::<IpAddr>() {
        Ok(address) => IpNet::from(address),
        Err(_) => text
            .parse()
            .map_err(|_| refused("must be a prefix such as 10.1.0.0/16"))?,
    };
    match prefix.trunc() == prefix {
        true => Ok(prefix),
        false => Err(refused("must have no bits set beyond its length")),
    }
}

#[cfg(test)]
mod tests {
    use probe_user::settings::Validate as _;

    use super::*;

    const GATEWAY: &str =
        "control.plaintext = true\n[[gateways]]\nname = 'gw'\nnode_selector = {}\n";

    fn settings(text: &str) -> Settings {
        toml::from_str(text).unwrap()
    }

    fn refusal(text: &str) -> String {
        settings(text).validate().unwrap_err().to_string()
    }

    #[test]
    fn a_gateway_is_read_with_all_that_it_says() {
        let text = format!(
            "{GATEWAY}egress_ips = ['10.78.0.100', 'fd78::100/124']\ndefault_ipv4 = '10.78.0.100'\n\
             sources = ['10.1.0.0/16', '10.2.0.1']\ninterface = 'eth1'\nmax_per_node = 1"
        );
        let settings = settings(&text);
        settings.validate().unwrap();
        let gateways = settings.gateways().unwrap();
        assert_eq!(gateways[0].pool.len(), 17);
        assert_eq!(
            gateways[0].sources,
            [
                "10.1.0.0/16".parse().unwrap(),
                "10.2.0.1/32".parse().unwrap()
            ]
        );
        assert_eq!(gateways[0].interface.as_deref(), Some("eth1"));
    }

    #[test]
    fn what_is_wrong_with_a_gateway_is_said_by_key() {
        let cases = [
            ("egress_ips = ['10.78.0']", "`gateways[0].egress_ips`"),
            (
                "egress_ips = []\nsources = ['10.1.0.1/16']",
                "`gateways[0].sources`",
            ),
            (
                "egress_ips = []\nmax_per_node = 0",
                "`gateways[0].max_per_node`",
            ),
            (
                "egress_ips = []\ncluster_default = true",
                "`gateways[0].cluster_default`",
            ),
            (
                "egress_ips = []\ndefault_ipv4 = '10.0.0.1'",
                "default 10.0.0.1",
            ),
        ];
        for (text, expected) in cases {
            let error = refusal(&format!("{GATEWAY}{text}"));
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn an_egress_ip_is_no_nodes_address() {
        let node = "[[nodes]]\nname = 'n1'\naddresses = ['10.78.0.100']\n";
        let error = refusal(&format!("{GATEWAY}egress_ips = ['10.78.0.100']\n{node}"));
        assert!(error.contains("address of node n1"), "{error}");
    }

    #[test]
    fn gateways_need_a_channel_unless_nothing_is_moved() {
        let gateway = "[[gateways]]\nname = 'gw'\nnode_selector = {}\negress_ips = ['10.78.0.100']";
        assert!(refusal(gateway).contains("control"));
        settings(&format!("failover.enabled = false\n{gateway}"))
            .validate()
            .unwrap();
    }

    #[test]
    fn failback_is_never_or_after_a_time() {
        let failback = |text: &str| {
            settings(&format!("failover.failback = '{text}'"))
                .failover
                .failback
        };
        assert_eq!(failback("never"), Failback(None));
        assert_eq!(failback("5m"), Failback(Some(Duration::from_secs(300))));
        let error = toml::from_str::<Settings>("failover.failback = 'soon'").unwrap_err();
        assert!(error.to_string().contains("neither"), "{error}");
    }

    #[test]
    fn shares_and_holds_are_checked() {
        assert!(refusal("failover.max_unreachable = 1.5").contains("`failover.max_unreachable`"));
        assert!(refusal("failover.damping.hold = '1h'").contains("`failover.damping.hold`"));
    }
}
