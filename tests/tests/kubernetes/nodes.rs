//! Nodes that come, go, and change.

use controller::api::State;
use pulsepath_tests::kubernetes::ADDRESS_ANNOTATION;

use crate::shared::with_installation;

/// A node that nobody is behind, at an address that nobody has.
const GHOST: &str = r"
apiVersion: v1
kind: Node
metadata: { name: ghost }
spec: { unschedulable: true }
status: { addresses: [{ type: InternalIP, address: 10.77.0.99 }] }
";

#[test]
fn a_node_is_spoken_of_from_when_it_is_added_until_it_is_deleted() {
    with_installation(|installation| {
        let plane = installation.site().plane();
        plane.kubectl_with(&["create", "-f", "-"], GHOST).unwrap();
        plane
            .kubectl_with(&["replace", "--subresource=status", "-f", "-"], GHOST)
            .unwrap();
        installation
            .await_state("ghost", Some(State::Unreachable))
            .unwrap();
        plane.kubectl(&["delete", "node", "ghost"]).unwrap();
        installation.await_state("ghost", None).unwrap();
    });
}

#[test]
fn a_node_that_is_no_longer_selected_loses_its_egress_ip() {
    with_installation(|installation| {
        installation.apply_gateway().unwrap();
        let owner = installation.await_owner_other_than(None).unwrap();
        let name = format!("n{}", owner.node);
        let plane = installation.site().plane();
        plane.kubectl(&["label", "node", &name, "egress-"]).unwrap();
        installation
            .await_owner_other_than(Some(owner.node))
            .unwrap();
    });
}

#[test]
fn a_node_is_probed_where_its_annotation_says() {
    with_installation(|installation| {
        let plane = installation.site().plane();
        let annotation = |address: &str| format!("{ADDRESS_ANNOTATION}{address}");
        let annotate = |value: &str| {
            plane
                .kubectl(&["annotate", "node", "n4", "--overwrite", &annotation(value)])
                .unwrap()
        };
        annotate("=10.77.0.99");
        installation
            .await_state("n4", Some(State::Unreachable))
            .unwrap();
        annotate("=10.77.0.4");
        installation
            .await_state("n4", Some(State::Available))
            .unwrap();
        annotate("-");
        installation.await_all_available().unwrap();
    });
}
