//! The custom resources of group `pulsepath.dev`, as Rust types: the schema that the API server
//! checks objects by is made from them.

mod egress_gateway;
mod node_health;

use kube::CustomResourceExt as _;

pub use self::egress_gateway::{
    EgressGateway, EgressGatewaySpec, EgressGatewayStatus, Eip, GatewayNode, IpPools,
    NodeReadiness, NodeSelector, Unassigned,
};
pub use self::node_health::{
    AgentHealth, AgentState, NodeHealth, NodeHealthSpec, NodeHealthStatus, RoundTrip,
};

/// The definitions of the custom resources as YAML, each with the name of the file that the chart
/// keeps it in.
///
/// # Errors
///
/// If a schema has no form in YAML.
pub fn definitions() -> Result<[(&'static str, String); 2], serde_saphyr::ser::Error> {
    let gateway = serde_saphyr::to_string(&EgressGateway::crd())?;
    let health = serde_saphyr::to_string(&NodeHealth::crd())?;
    Ok([
        ("egressgateways.yaml", gateway),
        ("nodehealths.yaml", health),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_say_what_kubectl_shows_and_what_spans_fields() {
        let [gateways, nodes] = definitions().unwrap().map(|(_, text)| text);
        for part in ["egw", "x-kubernetes-validations", "subresources"] {
            assert!(gateways.contains(part), "no {part} in {gateways}");
        }
        for part in ["nh", "LAST REPLY", "subresources"] {
            assert!(nodes.contains(part), "no {part} in {nodes}");
        }
    }
}
