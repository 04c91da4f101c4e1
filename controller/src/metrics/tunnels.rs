//! Metrics of tunnels: what nodes said when they were last asked. Reading them asks nobody.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::tunnels::{Collector, Summary};

/// Registers the metrics of what `collector` has found out.
pub fn register_tunnels(registry: &mut Registry, collector: Collector) {
    let registry = registry.sub_registry_with_prefix("pulsepath");
    registry.register_collector(Box::new(TunnelMetrics(collector)));
}

/// Reads the last summary. Nodes that are gone are not in it.
struct TunnelMetrics(Collector);

impl fmt::Debug for TunnelMetrics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("TunnelMetrics")
    }
}

impl collector::Collector for TunnelMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        match self.0.summary() {
            Some(summary) => encode(&mut encoder, &summary),
            None => Ok(()),
        }
    }
}

fn encode(encoder: &mut DescriptorEncoder, summary: &Summary) -> fmt::Result {
    let help = "Seconds since the nodes were last asked about their tunnels";
    let name = "tunnels_asked_seconds";
    let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    ConstGauge::new(summary.asked.elapsed().as_secs_f64()).encode(metric)?;

    let help = "Pairs of nodes, from one's view of the other, by what flowed between them then";
    let mut family = encoder.encode_descriptor("tunnel_pairs", help, None, MetricType::Gauge)?;
    let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
    for (_, _, verdict) in &summary.pairs {
        *counts.entry(verdict.as_str()).or_default() += 1;
    }
    for (verdict, count) in counts {
        ConstGauge::new(count).encode(family.encode_family(&[("verdict", verdict)])?)?;
    }

    let help = "1 for pairs of nodes between which packets flowed only one way then";
    let mut family = encoder.encode_descriptor("tunnel_one_way", help, None, MetricType::Gauge)?;
    for (node, peer, verdict) in summary.one_way() {
        let labels = [
            ("node", node),
            ("peer", peer),
            ("verdict", verdict.as_str()),
        ];
        ConstGauge::new(1_i64).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}
