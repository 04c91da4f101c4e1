//! What the chart does not accept, and how it says so.

use crate::helm::try_render;

#[track_caller]
fn assert_refused(set: &[&str], part: &str) {
    let error = try_render(set).unwrap_err();
    assert!(error.contains(part), "{part:?} is not in {error}");
}

#[test]
fn values_that_do_not_exist_are_refused() {
    assert_refused(&["controller.replica=3"], "'replica'");
    assert_refused(&["agent.settings.beat.perid=1s"], "'perid'");
}

#[test]
fn values_of_the_wrong_kind_are_refused_by_name() {
    for (value, name) in [
        (
            "controller.settings.period=200",
            "/controller/settings/period",
        ),
        (
            "controller.settings.timeout=soon",
            "/controller/settings/timeout",
        ),
        ("controller.settings.witnesses.count=4", "witnesses/count"),
        (
            "controller.settings.fencing=maybe",
            "/controller/settings/fencing",
        ),
        ("controller.replicas=0", "/controller/replicas"),
        (
            "agent.securityContext.mode=none",
            "/agent/securityContext/mode",
        ),
        ("agent.settings.tunnels.max_peers=1", "tunnels/max_peers"),
        (
            "agent.settings.checks[0].name=cni",
            "/agent/settings/checks/0",
        ),
        ("agent.maxUnavailable=0", "/agent/maxUnavailable"),
        ("probePort=0", "/probePort"),
        ("tls.source=nowhere", "/tls/source"),
    ] {
        assert_refused(&[value], name);
    }
}

#[test]
fn certificates_of_the_users_own_have_to_be_named() {
    assert_refused(&["tls.source=secret"], "tls.existingSecrets.");
    assert_refused(
        &["tls.source=certManager"],
        "tls.certManager.issuerRef.name",
    );
}

#[test]
fn a_network_policy_that_would_do_nothing_is_refused() {
    assert_refused(
        &["networkPolicy.enabled=true"],
        "controller.hostNetwork=false",
    );
}
