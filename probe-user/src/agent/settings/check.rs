//! A local check, as configured.

use std::time::Duration;

use serde::Deserialize;

use crate::settings::{HumanDuration, Invalid};

/// What a check asks.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum CheckKind {
    /// A TCP connection can be made.
    Tcp,
    /// An HTTP GET is answered with a 2xx status.
    Http,
    /// `grpc.health.v1.Health/Check` says SERVING.
    Grpc,
    /// A connection to a Unix stream socket can be made.
    Unix,
}

/// A local check: while one fails, the agent does not beat.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Its name in logs and metrics.
    pub name: String,
    /// What it asks.
    pub kind: CheckKind,
    /// Whom it asks: `HOST:PORT` (tcp), `http://...` (http), `HOST:PORT` or `HOST:PORT/SERVICE`
    /// (grpc), a path (unix).
    pub target: String,
    /// How often it asks.
    #[serde(default = "default_period")]
    pub period: HumanDuration,
    /// How long an answer may take.
    #[serde(default = "default_period")]
    pub timeout: HumanDuration,
}

fn default_period() -> HumanDuration {
    HumanDuration(Duration::from_secs(1))
}

impl Check {
    pub(super) fn validate(&self, key: &str) -> Result<(), Invalid> {
        if self.name.is_empty() {
            return Err(Invalid::new(
                format!("{key}.name"),
                "\"\"",
                "must not be empty",
            ));
        }
        let range =
            HumanDuration(Duration::from_millis(10))..=HumanDuration(Duration::from_secs(3600));
        Invalid::unless_within(format!("{key}.period"), &self.period, range.clone())?;
        Invalid::unless_within(format!("{key}.timeout"), &self.timeout, range)?;
        let (is_right, form) = match self.kind {
            CheckKind::Tcp => (is_host_and_port(&self.target), "`HOST:PORT`"),
            CheckKind::Http => (
                self.target.starts_with("http://"),
                "a URL that begins with http://",
            ),
            CheckKind::Grpc => {
                let address = self.target.split('/').next().unwrap_or_default();
                (
                    is_host_and_port(address),
                    "`HOST:PORT` or `HOST:PORT/SERVICE`",
                )
            }
            CheckKind::Unix => (self.target.starts_with('/'), "an absolute path"),
        };
        if is_right {
            return Ok(());
        }
        Err(Invalid::new(
            format!("{key}.target"),
            &self.target,
            format!("must be {form}"),
        ))
    }
}

fn is_host_and_port(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0)
    })
}
