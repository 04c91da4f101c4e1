//! Settings of egress IPs.

use std::path::PathBuf;

use serde::Deserialize;

use crate::kernel::TcSetting;

/// Where the agent keeps what it was told unless configured otherwise.
pub const DEFAULT_STATE_FILE: &str = "/var/lib/pulsepath/agent.json";

/// Egress IPs.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EgressSettings {
    /// The interface of egress IPs that do not name one; unset: the one whose subnet holds the
    /// address.
    pub interface: Option<String>,
    /// Whether the agent may set sysctls: `arp_ignore`, `arp_announce`, and IPv4 forwarding.
    /// Otherwise it only says what is missing.
    pub set_sysctls: bool,
    /// How the fence is attached, where the controller has egress IPs fenced.
    pub fence: TcSetting,
    /// What the agent was told, so that a restart needs no controller.
    pub state_file: PathBuf,
}

impl Default for EgressSettings {
    fn default() -> Self {
        Self {
            interface: None,
            set_sysctls: true,
            fence: TcSetting::default(),
            state_file: DEFAULT_STATE_FILE.into(),
        }
    }
}
