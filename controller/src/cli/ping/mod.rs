//! `pulsepath ping`: probes one address, as a controller or as any STAMP sender does.

mod plain;
mod probe;
mod report;
mod tally;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use probe_ebpf::wire::PROBE_PORT;
use probe_user::keys::{ClusterKeys, NodeKeys};

use super::output::Format;
use super::{Failure, NO_ANSWER, time};
use report::Reporter;

/// Options of `pulsepath ping`.
#[derive(clap::Args)]
#[command(group(
    clap::ArgGroup::new("how").required(true).args(["key", "cluster_key", "plain"])
))]
pub(in crate::cli) struct PingOptions {
    /// Host name or address to probe.
    address: String,
    /// The node's key file, which also names the node.
    #[arg(long, value_name = "FILE", conflicts_with = "node")]
    key: Option<PathBuf>,
    /// The cluster's key file; `--node` says whose key to derive.
    #[arg(long, value_name = "FILE", requires = "node")]
    cluster_key: Option<PathBuf>,
    /// Name of the node at the address.
    #[arg(long, value_name = "NAME", requires = "cluster_key")]
    node: Option<String>,
    /// Send plain STAMP (RFC 8762), which any standard reflector answers. It tells nothing of the
    /// agent.
    #[arg(long, conflicts_with = "node")]
    plain: bool,
    /// Stop after so many probes; without it, when interrupted.
    #[arg(short, long, value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Time between two probes, as `200ms` or in seconds.
    #[arg(short, long, value_parser = time::parse, default_value = "1s")]
    interval: Duration,
    /// How long to wait for a reply; a later one is reported as late.
    #[arg(short = 'W', long, value_parser = time::parse, default_value = "1s")]
    timeout: Duration,
    /// UDP port of the reflector.
    #[arg(short, long, default_value_t = PROBE_PORT)]
    port: u16,
    /// Use IPv4 only.
    #[arg(short = '4', conflicts_with = "ipv6")]
    ipv4: bool,
    /// Use IPv6 only.
    #[arg(short = '6')]
    ipv6: bool,
    /// For people or for programs.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// When to probe, and for how long.
#[derive(Clone, Copy)]
struct Pace {
    count: Option<u64>,
    interval: Duration,
    timeout: Duration,
}

impl Pace {
    /// Whether `sent` probes are all.
    fn is_over(&self, sent: u64) -> bool {
        self.count.is_some_and(|count| sent >= count)
    }
}

pub(in crate::cli) async fn run(options: PingOptions) -> Result<ExitCode, Failure> {
    let keys = options.keys().map_err(Failure::Usage)?;
    let to = options.resolve().await.map_err(Failure::Usage)?;
    let pace = Pace {
        count: options.count,
        interval: options.interval,
        timeout: options.timeout,
    };
    let name = keys
        .as_ref()
        .map_or(options.address, |keys| keys.node().to_owned());
    let mut reporter = Reporter::new(options.output, &name, to);
    let authenticated = keys.is_some();
    match keys {
        Some(keys) => reporter = probe::run(keys, to, pace, reporter).await?,
        None => plain::run(to, pace, &mut reporter).await?,
    }
    if reporter.finish()? {
        return Ok(ExitCode::SUCCESS);
    }
    if authenticated {
        eprintln!(
            "pulsepath: nothing answers at UDP port {}, or the node drops the probes since its \
             name or key is another (`pulsepath-agent inspect` there shows what it dropped)",
            to.port()
        );
    }
    Ok(ExitCode::from(NO_ANSWER))
}

impl PingOptions {
    /// The node's keys; `None` for plain STAMP.
    fn keys(&self) -> anyhow::Result<Option<NodeKeys>> {
        Ok(match (&self.key, &self.cluster_key, &self.node) {
            (Some(key), ..) => Some(NodeKeys::read(key)?),
            (None, Some(cluster_key), Some(node)) => {
                Some(ClusterKeys::read(cluster_key)?.node_keys(node))
            }
            _ => None,
        })
    }

    async fn resolve(&self) -> anyhow::Result<SocketAddr> {
        let wanted = |address: &SocketAddr| match address.ip() {
            IpAddr::V4(_) => !self.ipv6,
            IpAddr::V6(_) => !self.ipv4,
        };
        let found = tokio::net::lookup_host((self.address.as_str(), self.port)).await;
        let mut found = found.with_context(|| format!("cannot resolve {:?}", self.address))?;
        found.find(wanted).ok_or_else(|| {
            anyhow!(
                "{:?} has no address of the wanted internet protocol",
                self.address
            )
        })
    }
}
