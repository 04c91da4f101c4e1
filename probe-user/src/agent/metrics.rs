//! The agent's metrics, read from the maps whenever somebody asks.

mod egress;
mod lease;
mod tunnels;
mod witness;

use std::fmt;

use probe_ebpf::maps::AgentState;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use tracing::warn;

use super::beat::boot_now;
use super::in_words;
use super::status::{SharedStatus, Status};
use crate::egress::Handle;
use crate::kernel;
use crate::witness::Handle as WitnessHandle;

const PREFIX: &str = "pulsepath";

/// A registry with all of the agent's metrics.
pub(super) fn registry(
    status: SharedStatus,
    egress: Option<Handle>,
    witness: Option<WitnessHandle>,
) -> Registry {
    let mut registry = Registry::with_prefix(PREFIX);
    let programs = if kernel::is_built_in() {
        "built_in"
    } else {
        "missing"
    };
    registry.register(
        "build",
        "The agent's build",
        Info::new(vec![
            ("version", env!("CARGO_PKG_VERSION")),
            ("kernel_programs", programs),
        ]),
    );
    registry.register_collector(Box::new(AgentCollector {
        status,
        egress,
        witness,
    }));
    registry
}

#[derive(Debug)]
struct AgentCollector {
    status: SharedStatus,
    egress: Option<Handle>,
    witness: Option<WitnessHandle>,
}

impl Collector for AgentCollector {
    fn encode(&self, encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let status = self.status.lock();
        let mut metrics = Metrics(encoder);
        metrics.reflector(&status)?;
        metrics.beat(&status)?;
        metrics.attachments(&status)?;
        metrics.checks(&status)?;
        metrics.lease(&status)?;
        metrics.tunnels(&status)?;
        if let Some(witness) = &self.witness {
            metrics.witness(&witness.tally())?;
        }
        match &self.egress {
            Some(egress) => metrics.egress(&egress.status()),
            None => Ok(()),
        }
    }
}

type Labels<'a> = Vec<(&'static str, &'a str)>;

struct Metrics<'a>(DescriptorEncoder<'a>);

impl Metrics<'_> {
    fn reflector(&mut self, status: &Status) -> fmt::Result {
        let kind = vec![
            ("kind", status.kind.label),
            ("reason", status.kind.reason.as_str()),
        ];
        self.gauges(
            "reflector_kind",
            "Where the reflector runs: kernel, or user_space, where agent down means no answer",
            [(kind, 1.0)],
        )?;
        match status.view.counters() {
            Ok(counters) => {
                let series = counters
                    .iter()
                    .map(|counter| (vec![("outcome", counter.outcome.label())], counter.packets));
                self.counters(
                    "reflector_packets",
                    "Packets by what became of them",
                    series,
                )?;
            }
            Err(error) => warn!(error = in_words(&error), "cannot read the counters"),
        }
        match status.view.prober_count() {
            Ok(count) => {
                let series = [(vec![], count as f64)];
                self.gauges("reflector_probers", "Probers that are remembered", series)
            }
            Err(error) => {
                warn!(error = in_words(&error), "cannot read the probers");
                Ok(())
            }
        }
    }

    fn beat(&mut self, status: &Status) -> fmt::Result {
        self.counters(
            "agent_beats",
            "Beats of the agent",
            [(vec![], status.beats)],
        )?;
        let withheld = [(vec![], status.withheld)];
        self.counters(
            "agent_beats_withheld",
            "Beats withheld since a check failed",
            withheld,
        )?;
        let (beat, now) = match (status.view.beat(), boot_now()) {
            (Ok(beat), Ok(now)) => (beat, now),
            (Err(error), _) => {
                warn!(error = in_words(&error), "cannot read the beat");
                return Ok(());
            }
            (_, Err(error)) => {
                warn!(%error, "cannot read the boot clock");
                return Ok(());
            }
        };
        if beat.last_ns != 0 {
            let age = now.saturating_sub(beat.last_ns) as f64 / 1e9;
            let help = "Time since the last beat";
            self.gauges("agent_beat_age_seconds", help, [(vec![], age)])?;
        }
        let up = f64::from(u8::from(beat.is_up(now)));
        self.gauges(
            "agent_up",
            "Whether the last beat still counts",
            [(vec![], up)],
        )?;
        let draining = f64::from(u8::from(beat.state == AgentState::Draining));
        self.gauges(
            "agent_draining",
            "Whether the agent was asked to stop",
            [(vec![], draining)],
        )
    }

    fn attachments(&mut self, status: &Status) -> fmt::Result {
        let series = status.attachments.iter().map(|attachment| {
            let labels = vec![
                ("interface", attachment.interface.as_str()),
                ("mode", attachment.mode.label()),
                ("reason", attachment.reason.as_str()),
            ];
            (labels, 1.0)
        });
        self.gauges(
            "agent_attach_info",
            "How the reflector is attached, and why",
            series,
        )?;
        let changes = [(vec![], status.changes)];
        self.counters(
            "agent_attach_changes",
            "Changes of the attachments",
            changes,
        )
    }

    fn checks(&mut self, status: &Status) -> fmt::Result {
        let series = status.checks.iter().map(|check| {
            (
                vec![("name", check.name.as_str())],
                f64::from(u8::from(check.is_up())),
            )
        });
        self.gauges("local_check_up", "Whether a local check passes", series)
    }

    fn counters<'a>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (Labels<'a>, u64)>,
    ) -> fmt::Result {
        let mut family = self
            .0
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in series {
            ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn gauges<'a>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (Labels<'a>, f64)>,
    ) -> fmt::Result {
        let mut family = self
            .0
            .encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in series {
            ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
