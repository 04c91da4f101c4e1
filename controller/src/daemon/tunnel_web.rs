//! What the HTTP interface says of tunnels, and between which nodes they are.

use std::time::SystemTime;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use probe_user::tunnels::Limits;

use super::NodeSettings;
use crate::api::TunnelMatrix;
use crate::tunnels::{Collector, TunnelEnd};

/// The routes.
pub(crate) fn routes(collector: Collector) -> Router {
    Router::new()
        .route("/v1/tunnels", get(matrix))
        .with_state(collector)
}

async fn matrix(State(collector): State<Collector>) -> Json<TunnelMatrix> {
    let at = SystemTime::now();
    Json(collector.survey().await.matrix(at, Limits::default()))
}

/// Who last heard from a node's tunnels, and what is wrong with them, for people.
pub(crate) async fn sentences(collector: &Collector, node: &str) -> Vec<String> {
    if !collector.counts(node).await {
        return Vec::new();
    }
    let survey = collector.survey().await;
    let matrix = survey.matrix(SystemTime::now(), Limits::default());
    let heard = survey.last_heard(node).map(|heard| {
        let (by, encapsulation) = (heard.by, heard.encapsulation.label());
        let ago = heard.ago.as_secs_f64();
        format!("{by} received the last {encapsulation} packet from it, {ago:.1} s ago.")
    });
    heard
        .into_iter()
        .chain(matrix.sentences(Some(node)))
        .collect()
}

/// Where tunnels end. An address that is none is the monitor's to complain of.
pub(crate) fn ends(nodes: &[NodeSettings]) -> Vec<TunnelEnd> {
    let end = |node: &NodeSettings| {
        let parsed = node.addresses.iter().filter_map(|text| text.parse().ok());
        let addresses: Vec<_> = parsed.collect();
        TunnelEnd {
            node: node.name.clone(),
            tunnel_addresses: if node.tunnel_addresses.is_empty() {
                addresses.clone()
            } else {
                node.tunnel_addresses.clone()
            },
            addresses,
        }
    };
    nodes.iter().map(end).collect()
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn tunnels_end_at_the_management_addresses_unless_others_are_given() {
        let [management, underlay]: [IpAddr; 2] =
            ["10.0.0.1", "10.1.0.1"].map(|it| it.parse().unwrap());
        let node = |tunnel_addresses| NodeSettings {
            name: "n1".to_owned(),
            addresses: vec![management.to_string(), "nonsense".to_owned()],
            labels: Default::default(),
            tunnel_addresses,
        };
        let ends = ends(&[node(Vec::new()), node(vec![underlay])]);
        assert_eq!(ends[0].tunnel_addresses, [management]);
        assert_eq!(ends[1].tunnel_addresses, [underlay]);
        assert_eq!(ends[1].addresses, [management]);
    }
}
