//! Metrics of failover.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::api::GatewayList;
use crate::failover::{Event, Planner};

/// What is counted as it happens; owners are read from the planner when they are asked for.
#[derive(Clone, Debug)]
pub struct FailoverMetrics {
    failovers: Family<[(&'static str, String); 2], Counter>,
    phases: Family<[(&'static str, &'static str); 1], Histogram>,
}

impl FailoverMetrics {
    /// Registers all metrics of failover.
    pub fn register(registry: &mut Registry, planner: Arc<Mutex<Planner>>) -> Self {
        // 0.5 ms to 16 s.
        let histogram: fn() -> Histogram = || Histogram::new(exponential_buckets(0.5e-3, 2.0, 16));
        let metrics = Self {
            failovers: Family::default(),
            phases: Family::new_with_constructor(histogram),
        };
        let registry = registry.sub_registry_with_prefix("pulsepath");
        registry.register(
            "failovers",
            "Egress IPs that left their owner, by gateway and reason",
            metrics.failovers.clone(),
        );
        registry.register(
            "failover_seconds",
            "How long the steps of placements and moves took",
            metrics.phases.clone(),
        );
        registry.register_collector(Box::new(PlannerCollector { planner }));
        metrics
    }

    /// Counts an event.
    pub fn count(&self, event: &Event) {
        match event {
            Event::Moved {
                gateway,
                cause: Some(cause),
                ..
            } => {
                let labels = [
                    ("gateway", gateway.clone()),
                    ("reason", cause.as_str().to_owned()),
                ];
                self.failovers.get_or_create(&labels).inc();
            }
            Event::Completed { phases, .. } => {
                for (phase, time) in phases {
                    let labels = [("phase", phase.as_str())];
                    self.phases
                        .get_or_create(&labels)
                        .observe(time.as_secs_f64());
                }
            }
            _ => {}
        }
    }
}

/// Reads the planner. What belongs to no gateway any more has no series either.
#[derive(Debug)]
struct PlannerCollector {
    planner: Arc<Mutex<Planner>>,
}

impl Collector for PlannerCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let planner = self.planner.lock().unwrap_or_else(PoisonError::into_inner);
        let view = planner.view(Instant::now());
        drop(planner);
        encode_owners(&mut encoder, &view)?;
        encode_witnesses(&mut encoder, &view)?;
        let help = "1 while moves are held since too many nodes were lost at once";
        let metric = encoder.encode_descriptor("failover_held", help, None, MetricType::Gauge)?;
        ConstGauge::new(i64::from(view.failover.held.is_some())).encode(metric)
    }
}

fn encode_witnesses(encoder: &mut DescriptorEncoder, view: &GatewayList) -> fmt::Result {
    let help = "Seconds since each witness last answered the controller";
    let name = "witness_silent_seconds";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for witness in &view.failover.witnesses {
        let silent = ConstGauge::new(witness.silent_ms as f64 / 1e3);
        silent.encode(family.encode_family(&[("node", witness.node.as_str())])?)?;
    }
    let help = "Egress IPs that do not move since too few witnesses promise not to extend a lease";
    let metric = encoder.encode_descriptor("failover_no_quorum", help, None, MetricType::Gauge)?;
    let count = i64::try_from(view.failover.no_quorum).unwrap_or(i64::MAX);
    ConstGauge::new(count).encode(metric)
}

fn encode_owners(encoder: &mut DescriptorEncoder, view: &GatewayList) -> fmt::Result {
    let help = "1 for the node that owns the egress IP";
    let mut family = encoder.encode_descriptor("egress_ip_owner", help, None, MetricType::Gauge)?;
    for gateway in &view.gateways {
        for address in &gateway.addresses {
            let Some(node) = address.owner.as_deref() else {
                continue;
            };
            let ip = address.address.to_string();
            let labels = [
                ("gateway", gateway.name.as_str()),
                ("ip", &ip),
                ("node", node),
            ];
            ConstGauge::new(1i64).encode(family.encode_family(&labels)?)?;
        }
    }
    let help = "Egress IPs without an owner";
    let mut family =
        encoder.encode_descriptor("egress_ips_unassigned", help, None, MetricType::Gauge)?;
    for gateway in &view.gateways {
        let unassigned = gateway
            .addresses
            .iter()
            .filter(|address| address.owner.is_none());
        let count = ConstGauge::new(i64::try_from(unassigned.count()).unwrap_or(i64::MAX));
        count.encode(family.encode_family(&[("gateway", gateway.name.as_str())])?)?;
    }
    Ok(())
}
