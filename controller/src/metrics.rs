//! The controller's metrics.

mod failover;
mod tunnels;

use std::fmt;
use std::sync::Arc;

use probe_user::session::{LAG_BOUNDS, Lag, ProberStats, SocketStats};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

pub use self::failover::FailoverMetrics;
pub use self::tunnels::register_tunnels;
use crate::health::State;
use crate::monitor::{Board, NodeView};

/// What is counted as it happens; everything else is read from the [`Board`] when it is asked for.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Round-trip times, seconds.
    pub round_trips: Histogram,
    /// Transitions, by state before and after.
    pub transitions: Family<[(&'static str, &'static str); 2], Counter>,
    /// Questions to agents whether they hear a node, by what came of them.
    pub asks: Family<[(&'static str, &'static str); 1], Counter>,
    /// Questions to agents whether they receive packets from a node's tunnels, by what came of them.
    pub tunnel_asks: Family<[(&'static str, &'static str); 1], Counter>,
    /// Reloads of the configuration that were not accepted, wholly or for single nodes.
    pub reload_failures: Counter,
    /// Failed attempts to write the state file.
    pub state_write_failures: Counter,
}

impl Metrics {
    /// Registers all metrics of a controller.
    pub fn register(registry: &mut Registry, board: Arc<Board>) -> Self {
        let metrics = Self {
            // 10 us to 1.3 s.
            round_trips: Histogram::new(exponential_buckets(10e-6, 2.0, 18)),
            transitions: Family::default(),
            asks: Family::default(),
            tunnel_asks: Family::default(),
            reload_failures: Counter::default(),
            state_write_failures: Counter::default(),
        };
        let registry = registry.sub_registry_with_prefix("pulsepath");
        registry.register(
            "probe_rtt_seconds",
            "Round-trip times of probes, all nodes together",
            metrics.round_trips.clone(),
        );
        registry.register(
            "node_transitions",
            "Changes of nodes' states",
            metrics.transitions.clone(),
        );
        registry.register(
            "asks",
            "Questions to agents whether they hear a node that the controller does not hear",
            metrics.asks.clone(),
        );
        registry.register(
            "tunnel_asks",
            "Questions to agents that count tunnels whether they receive packets from those of a \
             node that the controller does not hear",
            metrics.tunnel_asks.clone(),
        );
        registry.register(
            "config_reload_failures",
            "Reloads of the configuration that were not accepted, wholly or for some nodes",
            metrics.reload_failures.clone(),
        );
        registry.register(
            "state_write_failures",
            "Failed attempts to write the state file",
            metrics.state_write_failures.clone(),
        );
        registry.register(
            "build",
            "The running program",
            Info::new([
                ("component", "controller"),
                ("version", env!("CARGO_PKG_VERSION")),
            ]),
        );
        registry.register_collector(Box::new(BoardCollector { board }));
        metrics
    }

    /// Counts a transition.
    pub fn count_transition(&self, from: State, to: State) {
        let labels = [("from", from.as_str()), ("to", to.as_str())];
        self.transitions.get_or_create(&labels).inc();
    }

    /// Counts a question.
    pub fn count_ask(&self, subject: Subject, outcome: AskOutcome) {
        let asks = match subject {
            Subject::Probes => &self.asks,
            Subject::Tunnels => &self.tunnel_asks,
        };
        asks.get_or_create(&[("outcome", outcome.as_str())]).inc();
    }
}

/// What an agent is asked about another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Whether it answers the agent's probes.
    Probes,
    /// Whether packets come from its tunnels.
    Tunnels,
}

/// What came of asking an agent whether it hears a node, or its tunnels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskOutcome {
    /// It does.
    Heard,
    /// It does not.
    NotHeard,
    /// It said nothing of use in time.
    NoAnswer,
}

impl AskOutcome {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Heard => "heard",
            Self::NotHeard => "not_heard",
            Self::NoAnswer => "no_answer",
        }
    }
}

/// Reads the board. A node that is gone from there has no series either.
#[derive(Debug)]
struct BoardCollector {
    board: Arc<Board>,
}

impl Collector for BoardCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let nodes = self.board.nodes();
        encode_states(&mut encoder, &nodes)?;
        encode_nodes(&mut encoder, &nodes)?;
        let (prober, socket) = self.board.prober();
        encode_prober(&mut encoder, &prober, &socket)?;
        encode_lag(&mut encoder, &prober.lag)
    }
}

fn encode_states(encoder: &mut DescriptorEncoder, nodes: &[NodeView]) -> fmt::Result {
    let help = "1 for the state in which the node is, 0 for the others";
    let mut family = encoder.encode_descriptor("node_state", help, None, MetricType::Gauge)?;
    for node in nodes {
        for state in State::ALL {
            let labels = [("node", node.name.as_str()), ("state", state.as_str())];
            let value = ConstGauge::new(i64::from(node.state == state));
            value.encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

fn encode_nodes(encoder: &mut DescriptorEncoder, nodes: &[NodeView]) -> fmt::Result {
    let help = "Round-trip time of the node's last reply";
    let mut family =
        encoder.encode_descriptor("node_rtt_seconds", help, None, MetricType::Gauge)?;
    for node in nodes {
        if let Some(times) = node.round_trips {
            let value = ConstGauge::new(times.last.as_secs_f64());
            value.encode(family.encode_family(&[("node", node.name.as_str())])?)?;
        }
    }
    let help = "1 while the controller does not hear the node, but others do";
    let mut family =
        encoder.encode_descriptor("controller_path_down", help, None, MetricType::Gauge)?;
    for node in nodes {
        let value = ConstGauge::new(i64::from(node.path_down));
        value.encode(family.encode_family(&[("node", node.name.as_str())])?)?;
    }
    let help = "Probes that the node did not answer";
    let mut family = encoder.encode_descriptor("probes_lost", help, None, MetricType::Counter)?;
    for node in nodes {
        let value = ConstCounter::new(node.lost);
        value.encode(family.encode_family(&[("node", node.name.as_str())])?)?;
    }
    Ok(())
}

fn encode_prober(
    encoder: &mut DescriptorEncoder,
    prober: &ProberStats,
    socket: &SocketStats,
) -> fmt::Result {
    let counters = [
        ("probes_sent", "Probes handed to the sockets", prober.sent),
        (
            "probes_refused",
            "Probes that this host did not let out",
            prober.refused,
        ),
        ("prober_rounds", "Rounds of probes begun", prober.rounds),
        (
            "prober_skipped_rounds",
            "Rounds left out since the prober was late by a period or more",
            prober.skipped_rounds,
        ),
        (
            "prober_overflows",
            "Datagrams dropped since a receive buffer was full, as far as is known",
            socket.overflowed,
        ),
    ];
    for (name, help, value) in counters {
        let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(value).encode(metric)?;
    }
    let help = "Time not counted as silence since the prober did not probe, all nodes together";
    let metric =
        encoder.encode_descriptor("prober_excused_seconds", help, None, MetricType::Counter)?;
    ConstCounter::new(prober.excused.as_secs_f64()).encode(metric)?;
    encode_replies(encoder, prober)
}

fn encode_replies(encoder: &mut DescriptorEncoder, prober: &ProberStats) -> fmt::Result {
    let kinds = [
        ("answered", prober.answered),
        ("late", prober.late),
        ("duplicate", prober.duplicate),
        ("reordered", prober.reordered),
        ("replayed", prober.replayed),
        ("forged", prober.forged),
        ("foreign", prober.foreign),
        ("unexpected_source", prober.unexpected_source),
    ];
    let help =
        "Datagrams received, by what they turned out to be; reordered ones are answered, too";
    let mut family = encoder.encode_descriptor("probe_replies", help, None, MetricType::Counter)?;
    for (kind, value) in kinds {
        ConstCounter::new(value).encode(family.encode_family(&[("kind", kind)])?)?;
    }
    Ok(())
}

fn encode_lag(encoder: &mut DescriptorEncoder, lag: &Lag) -> fmt::Result {
    let help = "By how much rounds of probes began later than scheduled";
    let mut metric =
        encoder.encode_descriptor("prober_lag_seconds", help, None, MetricType::Histogram)?;
    let bounds = LAG_BOUNDS
        .iter()
        .map(|bound| bound.as_secs_f64())
        .chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(lag.counts).collect();
    let count = lag.counts.iter().sum();
    metric.encode_histogram::<NoLabelSet>(lag.sum.as_secs_f64(), count, &buckets, None)
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text;

    use super::*;
    use crate::health::State;

    fn encoded(registry: &Registry) -> String {
        let mut text = String::new();
        text::encode(&mut text, registry).unwrap();
        text
    }

    #[test]
    fn a_controller_without_nodes_has_its_own_metrics() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry, Arc::default());
        metrics.count_transition(State::Available, State::Unreachable);
        let text = encoded(&registry);
        let transition = r#"pulsepath_node_transitions_total{from="AVAILABLE",to="UNREACHABLE"} 1"#;
        for line in [
            transition,
            "pulsepath_probes_sent_total 0",
            r#"pulsepath_probe_replies_total{kind="forged"} 0"#,
            r#"pulsepath_prober_lag_seconds_bucket{le="+Inf"} 0"#,
            "pulsepath_probe_rtt_seconds_count 0",
            r#"pulsepath_build_info{component="controller""#,
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
