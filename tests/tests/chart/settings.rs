//! The daemons accept the files that the chart makes for them.

use std::process::Command;

use pulsepath_tests::{bin_dir, run};
use tempfile::TempDir;

use crate::helm::render;

/// The file of `component` with these values, checked by the daemon itself.
fn check(component: &str, set: &[&str]) -> Result<String, String> {
    let objects = render(set);
    let map = objects.get("ConfigMap", &format!("pulsepath-{component}"));
    let text = map["data"][format!("{component}.toml")].as_str().unwrap();
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("settings.toml");
    std::fs::write(&file, text).unwrap();
    let program = bin_dir().unwrap().join(format!("pulsepath-{component}"));
    let mut command = Command::new(program);
    command.arg("check").arg("--config").arg(file);
    // As the Pod's environment has it.
    command.env("PULSEPATH_AGENT__NODE", "n1");
    command.env("PULSEPATH_AGENT__MANAGEMENT__ADDRESSES", "10.0.0.1,fd00::1");
    command.env("PULSEPATH_CONTROLLER__KUBERNETES__IDENTITY", "c1");
    command.env("PULSEPATH_CONTROLLER__KUBERNETES__NAMESPACE", "pulsepath");
    run(&mut command)
        .map(|_| text.to_owned())
        .map_err(|error| format!("{error:#}\n{text}"))
}

#[test]
fn the_agent_accepts_its_file() {
    check("agent", &[]).unwrap();
}

#[test]
fn every_setting_of_the_agent_reaches_it() {
    let text = check(
        "agent",
        &[
            "agent.settings.management.interface=eth0",
            "agent.settings.beat.period=200ms",
            "agent.settings.beat.timeout=1s",
            "agent.settings.stamp.enabled=true",
            "agent.settings.stamp.sources={10.0.0.0/8,fd00::/8}",
            "agent.settings.tunnels.enabled=true",
            "agent.settings.tunnels.vxlan_ports={4789}",
            "agent.settings.grpc_health.listen=0.0.0.0:9107",
            "agent.settings.checks[0].name=ovn \"kube\"",
            "agent.settings.checks[0].kind=http",
            "agent.settings.checks[0].target=http://127.0.0.1:10256/healthz",
            "probePort=1862",
            "controlPort=19862",
        ],
    )
    .unwrap();
    for line in [
        "management.interface = \"eth0\"",
        "beat.timeout = \"1s\"",
        "stamp.sources = [\"10.0.0.0/8\", \"fd00::/8\"]",
        "tunnels.vxlan_ports = [4789]",
        "reflector.port = 1862",
        "control.listen = \"[::]:19862\"",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[test]
fn the_controller_accepts_its_file() {
    check("controller", &[]).unwrap();
}

#[test]
fn every_setting_of_the_controller_reaches_it() {
    let text = check(
        "controller",
        &[
            "controller.settings.profile=calm",
            "controller.settings.period=2s",
            "controller.settings.timeout=20s",
            "controller.settings.lease=30s",
            "controller.settings.witnesses.count=3",
            "controller.settings.failover.enabled=false",
            "controller.settings.failover.failback=1m",
            "controller.settings.failover.max_unreachable=1",
            "controller.settings.services[0].name=dns",
            "controller.settings.services[0].nodes.example\\.com/dns=yes",
            "probePort=1862",
        ],
    )
    .unwrap();
    for line in [
        "timeout = \"20s\"",
        "failover.enabled = false",
        "witnesses.count = 3",
        "services = [{\"name\" = \"dns\", \"nodes\" = {\"example.com/dns\" = \"yes\"}}]",
        "port = 1862",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[test]
fn what_the_chart_cannot_judge_the_daemon_refuses_by_name() {
    let error = check("controller", &["controller.settings.timeout=100ms"]).unwrap_err();
    assert!(error.contains("`timeout`"), "{error}");
    let error = check("agent", &["agent.settings.beat.timeout=50ms"]).unwrap_err();
    assert!(error.contains("`beat.timeout`"), "{error}");
}
