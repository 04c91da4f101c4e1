//! Settings of the agent.

mod check;
mod egress;
mod management;
mod source;
mod tunnels;

use std::collections::HashSet;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use probe_ebpf::maps::MAX_SOURCES;
use probe_ebpf::wire::{PROBE_PORT, SBFD_PORT};
use serde::Deserialize;

pub use check::{Check, CheckKind};
pub use egress::{DEFAULT_STATE_FILE, EgressSettings};
pub use management::ManagementSettings;
pub use source::SourcePrefix;
pub use tunnels::TunnelSettings;

use super::cli::DEFAULT_PIN_DIR;
use crate::channel::{CertFiles, SecurityChoice};
use crate::kernel::{AttachSetting, KernelLogLevel};
use crate::logging::LogFormat;
use crate::settings::{HumanDuration, Invalid, Validate};

/// Port of the control channel.
const CONTROL_PORT: u16 = 9862;
/// Port of the agent's HTTP server.
const HTTP_PORT: u16 = 9863;

const fn millis(millis: u64) -> HumanDuration {
    HumanDuration(Duration::from_millis(millis))
}

/// All settings of the agent.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The node's name: whoever probes it knows it under this name.
    pub node: String,
    /// Directory on a BPF file system where everything is pinned.
    pub pin_dir: PathBuf,
    /// File with the node's key.
    pub key_file: PathBuf,
    /// Where probes arrive.
    pub management: ManagementSettings,
    /// The reflector.
    pub reflector: ReflectorSettings,
    /// Plain STAMP.
    pub stamp: StampSettings,
    /// S-BFD.
    pub sbfd: SbfdSettings,
    /// The sign of life.
    pub beat: BeatSettings,
    /// Local checks.
    pub checks: Vec<Check>,
    /// The control channel.
    pub control: ControlSettings,
    /// The gRPC health service.
    pub grpc_health: GrpcHealthSettings,
    /// Egress IPs.
    pub egress: EgressSettings,
    /// The tunnel counters.
    pub tunnels: TunnelSettings,
    /// The HTTP server.
    pub http: HttpSettings,
    /// Logs.
    pub log: LogSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            node: host_name(),
            pin_dir: DEFAULT_PIN_DIR.into(),
            key_file: "/etc/pulsepath/node.key".into(),
            management: ManagementSettings::default(),
            reflector: ReflectorSettings::default(),
            stamp: StampSettings::default(),
            sbfd: SbfdSettings::default(),
            beat: BeatSettings::default(),
            checks: Vec::new(),
            control: ControlSettings::default(),
            grpc_health: GrpcHealthSettings::default(),
            egress: EgressSettings::default(),
            tunnels: TunnelSettings::default(),
            http: HttpSettings::default(),
            log: LogSettings::default(),
        }
    }
}

/// The node's host name; empty if it has none that is text.
pub(super) fn host_name() -> String {
    let name = nix::sys::utsname::uname().ok();
    name.and_then(|name| name.nodename().to_str().map(str::to_owned))
        .unwrap_or_default()
}

/// The reflector.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReflectorSettings {
    /// How it is attached.
    pub attach: AttachSetting,
    /// UDP port of probes and plain STAMP.
    pub port: u16,
}

impl Default for ReflectorSettings {
    fn default() -> Self {
        Self {
            attach: AttachSetting::Auto,
            port: PROBE_PORT,
        }
    }
}

/// Plain STAMP.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StampSettings {
    /// Whether it is answered.
    pub enabled: bool,
    /// Who may ask.
    pub sources: Vec<SourcePrefix>,
}

/// S-BFD.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SbfdSettings {
    /// Whether it is answered.
    pub enabled: bool,
    /// UDP port.
    pub port: u16,
    /// The node's discriminator, not 0.
    pub discriminator: u32,
    /// Who may ask.
    pub sources: Vec<SourcePrefix>,
    /// Required Min RX Interval that is announced.
    pub min_rx: HumanDuration,
}

impl Default for SbfdSettings {
    fn default() -> Self {
        Self {
            enabled: false,
            port: SBFD_PORT,
            discriminator: 0,
            sources: Vec::new(),
            min_rx: millis(10),
        }
    }
}

/// The sign of life.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BeatSettings {
    /// How often the agent beats.
    pub period: HumanDuration,
    /// For how long a beat counts.
    pub timeout: HumanDuration,
}

impl Default for BeatSettings {
    fn default() -> Self {
        Self {
            period: millis(100),
            timeout: millis(500),
        }
    }
}

/// The control channel; without certificates, and without `plaintext`, there is none.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ControlSettings {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Certificates of the authorities that controllers' certificates come from.
    pub ca_file: Option<PathBuf>,
    /// The node's certificate.
    pub cert_file: Option<PathBuf>,
    /// Its key, mode 0600.
    pub key_file: Option<PathBuf>,
    /// Serve whoever reaches the port, without TLS.
    pub plaintext: bool,
    /// The DNS name in controllers' certificates; unset: they say by a URI what they are.
    pub controller_name: Option<String>,
}

impl Default for ControlSettings {
    fn default() -> Self {
        Self {
            listen: (Ipv6Addr::UNSPECIFIED, CONTROL_PORT).into(),
            ca_file: None,
            cert_file: None,
            key_file: None,
            plaintext: false,
            controller_name: None,
        }
    }
}

impl ControlSettings {
    /// How the channel is to be secured; `None`: there shall be none.
    pub(super) fn security(&self) -> Result<Option<SecurityChoice>, Invalid> {
        let [ca, cert, key] =
            [&self.ca_file, &self.cert_file, &self.key_file].map(Option::as_deref);
        SecurityChoice::of(
            ca,
            cert,
            key,
            self.plaintext,
            self.controller_name.as_deref(),
        )
    }
}

/// The gRPC health service.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GrpcHealthSettings {
    /// Where it listens; `None`: it is off.
    pub listen: Option<SocketAddr>,
    /// Its certificate; without one it is served without TLS.
    pub cert_file: Option<PathBuf>,
    /// The certificate's key, mode 0600.
    pub key_file: Option<PathBuf>,
}

impl GrpcHealthSettings {
    /// The certificate's files; `None`: no TLS.
    pub(super) fn certificate(&self) -> Result<Option<CertFiles>, Invalid> {
        let missing = match (&self.cert_file, &self.key_file) {
            (None, None) => return Ok(None),
            (Some(cert), Some(key)) => {
                let [cert, key] = [cert, key].map(PathBuf::clone);
                return Ok(Some(CertFiles { cert, key }));
            }
            (None, Some(_)) => "grpc_health.cert_file",
            (Some(_), None) => "grpc_health.key_file",
        };
        let accepted = "cert_file and key_file are needed together";
        Err(Invalid::new(missing, "unset", accepted))
    }
}

/// The HTTP server.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpSettings {
    /// Where it listens.
    pub listen: SocketAddr,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::UNSPECIFIED, HTTP_PORT).into(),
        }
    }
}

/// Logs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogSettings {
    /// How lines are written.
    pub format: LogFormat,
    /// Which lines the kernel programs make.
    pub kernel: KernelLogLevel,
}

impl Validate for Settings {
    fn validate(&self) -> Result<(), Invalid> {
        if self.node.is_empty() {
            return Err(Invalid::new("node", "\"\"", "must be the node's name"));
        }
        self.management.validate()?;
        self.validate_ports()?;
        self.validate_sources()?;
        self.validate_beat()?;
        self.control.security()?;
        self.grpc_health.certificate()?;
        self.tunnels.validate()?;
        self.validate_checks()
    }
}

impl Settings {
    fn validate_ports(&self) -> Result<(), Invalid> {
        Invalid::unless_within("reflector.port", &self.reflector.port, 1..=u16::MAX)?;
        Invalid::unless_within("sbfd.port", &self.sbfd.port, 1..=u16::MAX)?;
        if self.sbfd.enabled && self.sbfd.port == self.reflector.port {
            let other = "must be another port than `reflector.port`";
            return Err(Invalid::new("sbfd.port", self.sbfd.port, other));
        }
        if self.sbfd.enabled && self.sbfd.discriminator == 0 {
            return Err(Invalid::new(
                "sbfd.discriminator",
                0,
                "must be between 1 and 4294967295",
            ));
        }
        let longest = HumanDuration(Duration::from_secs(60));
        Invalid::unless_within("sbfd.min_rx", &self.sbfd.min_rx, millis(1)..=longest)
    }

    fn validate_sources(&self) -> Result<(), Invalid> {
        for (name, enabled, sources) in [
            ("stamp", self.stamp.enabled, &self.stamp.sources),
            ("sbfd", self.sbfd.enabled, &self.sbfd.sources),
        ] {
            let key = format!("{name}.sources");
            if enabled && sources.is_empty() {
                let needed = format!("{name}.enabled needs prefixes of those who may ask");
                return Err(Invalid::new(key, "[]", needed));
            }
            at_most(key, sources.len(), MAX_SOURCES)?;
        }
        if self.stamp.enabled && self.sbfd.enabled && self.stamp.sources != self.sbfd.sources {
            let listed: Vec<_> = self.sbfd.sources.iter().map(ToString::to_string).collect();
            let same =
                "must equal `stamp.sources` where both are enabled: the reflector has one list";
            return Err(Invalid::new("sbfd.sources", format!("{listed:?}"), same));
        }
        Ok(())
    }

    fn validate_beat(&self) -> Result<(), Invalid> {
        let BeatSettings { period, timeout } = &self.beat;
        let longest = HumanDuration(Duration::from_secs(60));
        Invalid::unless_within("beat.period", period, millis(10)..=longest)?;
        let shortest = HumanDuration(2 * period.0);
        if timeout.0 < shortest.0 {
            let accepted = format!("must be at least twice `beat.period`, {shortest}");
            return Err(Invalid::new("beat.timeout", timeout, accepted));
        }
        let longest = HumanDuration(Duration::from_secs(600));
        Invalid::unless_within("beat.timeout", timeout, shortest..=longest)
    }

    fn validate_checks(&self) -> Result<(), Invalid> {
        let mut names = HashSet::new();
        for (index, check) in self.checks.iter().enumerate() {
            check.validate(&format!("checks[{index}]"))?;
            if !names.insert(&check.name) {
                let unique = "must be another name than that of an earlier check";
                return Err(Invalid::new(
                    format!("checks[{index}].name"),
                    &check.name,
                    unique,
                ));
            }
        }
        Ok(())
    }
}

fn at_most(key: impl Into<String>, count: usize, most: usize) -> Result<(), Invalid> {
    if count <= most {
        return Ok(());
    }
    Err(Invalid::new(
        key,
        format!("{count} entries"),
        format!("must be at most {most} entries"),
    ))
}

#[cfg(test)]
mod tests;
