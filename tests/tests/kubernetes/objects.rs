//! Custom resources, as the API server and kubectl have them.

use crate::shared::with_installation;
use pulsepath_tests::kubernetes::Installation;

#[test]
fn kubectl_shows_gateways_and_nodes_in_columns() {
    with_installation(|installation| {
        installation.apply_gateway().unwrap();
        installation.await_owner_other_than(None).unwrap();
        let shown = installation
            .site()
            .plane()
            .kubectl(&["get", "egw,nh"])
            .unwrap();
        for word in ["ASSIGNED", "CANDIDATES", "egressgateway.pulsepath.dev/gw"] {
            assert!(shown.contains(word), "no {word}:\n{shown}");
        }
        for word in ["STATE", "SINCE", "nodehealth.pulsepath.dev/n1", "AVAILABLE"] {
            assert!(shown.contains(word), "no {word}:\n{shown}");
        }
    });
}

#[test]
fn the_api_server_refuses_what_no_gateway_can_be_and_says_why() {
    with_installation(|installation| {
        let refused = [
            (
                r#"{ nodeSelector: { selector: {} }, ippools: { ipv4: ["10.78.0.100/24"] } }"#,
                "ipv4 must hold IPv4 addresses, ranges, and prefixes without bits beyond",
            ),
            (
                r#"{ nodeSelector: { selector: {} }, ippools: { ipv4: ["fd78::1"] } }"#,
                "ipv4 must hold IPv4 addresses",
            ),
            (
                r#"{ nodeSelector: { selector: {} }, sources: ["10.99.0.1/24"] }"#,
                "sources must be addresses or prefixes",
            ),
            (
                "{ nodeSelector: { selector: {} }, clusterDefault: true }",
                "clusterDefault needs sources",
            ),
            (
                "{ nodeSelector: { selector: {}, policy: AverageSelection } }",
                "nodeSelector.policy is not supported",
            ),
        ];
        for (spec, reason) in refused {
            let answer = format!("{:#}", apply(installation, spec).unwrap_err());
            assert!(answer.contains(reason), "{spec}: {answer}");
        }
    });
}

fn apply(installation: &Installation, spec: &str) -> anyhow::Result<String> {
    let head = "apiVersion: pulsepath.dev/v1alpha1\nkind: EgressGateway\nmetadata: { name: wrong }";
    installation
        .site()
        .plane()
        .apply(&format!("{head}\nspec: {spec}\n"))
}
