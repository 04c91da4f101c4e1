//! What the configuration file says of the control channel.

use std::path::PathBuf;

use probe_user::channel::SecurityChoice;
use probe_user::settings::Invalid;
use serde::Deserialize;

/// The control channel to the agents.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub struct ControlSettings {
    /// Where agents listen.
    pub port: u16,
    /// Certificates of the authorities that agents' certificates come from.
    pub ca_file: Option<PathBuf>,
    /// The controller's certificate.
    pub cert_file: Option<PathBuf>,
    /// Its key, mode 0600.
    pub key_file: Option<PathBuf>,
    /// Tell whoever answers, without TLS.
    pub plaintext: bool,
    /// The DNS name in the certificate that all agents share; unset: each has its own, with its
    /// node's name.
    pub agent_name: Option<String>,
}

impl Default for ControlSettings {
    fn default() -> Self {
        Self {
            port: 9862,
            ca_file: None,
            cert_file: None,
            key_file: None,
            plaintext: false,
            agent_name: None,
        }
    }
}

impl ControlSettings {
    /// How the channel is secured; `None`: there is none.
    ///
    /// # Errors
    ///
    /// If the settings contradict each other.
    pub fn security(&self) -> Result<Option<SecurityChoice>, Invalid> {
        let [ca, cert, key] =
            [&self.ca_file, &self.cert_file, &self.key_file].map(Option::as_deref);
        SecurityChoice::of(ca, cert, key, self.plaintext, self.agent_name.as_deref())
    }
}
