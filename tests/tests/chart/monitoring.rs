//! Alerts and dashboard: whether their tools accept them, and whether what they ask for exists.

use std::collections::BTreeSet;
use std::fs;

use pulsepath_tests::egress::{PATIENCE, Scene, Setup};
use pulsepath_tests::{eventually, run};
use serde_json::Value;
use tempfile::TempDir;

use crate::helm::{chart, file, render, tool};

const TESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/chart/alerts.yaml");

fn promtool(words: &[&str]) -> std::process::Command {
    let mut promtool = tool("prometheus/usr/bin/promtool");
    promtool.args(words);
    promtool
}

#[test]
fn prometheus_accepts_the_alerts() {
    run(promtool(&["check", "rules"]).arg(chart().join("files/alerts.yaml"))).unwrap();
}

#[test]
fn alerts_fire_when_they_should() {
    let directory = TempDir::new().unwrap();
    let copy = |from: &std::path::Path, name: &str| {
        fs::copy(from, directory.path().join(name)).unwrap();
    };
    copy(&chart().join("files/alerts.yaml"), "alerts.yaml");
    copy(TESTS.as_ref(), "tests.yaml");
    run(promtool(&["test", "rules", "tests.yaml"]).current_dir(directory.path())).unwrap();
}

#[test]
fn every_alert_has_a_test() {
    let tests = fs::read_to_string(TESTS).unwrap();
    for line in file("files/alerts.yaml").lines() {
        if let Some(name) = line.trim().strip_prefix("- alert: ") {
            let tested = format!("alertname: {name}\n");
            assert!(tests.contains(&tested), "{name} has no test");
        }
    }
}

#[test]
fn the_cluster_is_given_all_alerts() {
    let objects = render(&["monitoring.prometheusRule.enabled=true"]);
    let rule = objects.get("PrometheusRule", "pulsepath");
    let given = rule["spec"]["groups"][0]["rules"].as_array().unwrap().len();
    assert_eq!(
        given,
        file("files/alerts.yaml").matches("- alert: ").count()
    );
}

/// Everything that looks like a metric of ours in `text`.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_part(c));
    words
        .filter(|word| word.starts_with("pulsepath_"))
        .map(str::to_owned)
        .collect()
}

/// The names that a daemon's metrics can be asked for.
fn exported(metrics: &str) -> BTreeSet<String> {
    let described = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "));
    described
        .map(|line| {
            let (name, kind) = line.split_once(' ').unwrap();
            match kind {
                "counter" => format!("{name}_total"),
                "histogram" => format!("{name}_bucket"),
                "info" => format!("{name}_info"),
                _ => name.to_owned(),
            }
        })
        .collect()
}

#[test]
fn alerts_and_dashboard_ask_for_metrics_that_exist() {
    let setup = Setup {
        agent_settings: "tunnels.enabled = true\n".to_owned(),
        ..Setup::default()
    };
    let scene = Scene::start("chart-metrics", setup).unwrap();
    let owner = scene.owner().unwrap();
    let agent = scene.node(owner).agent_http("/metrics").unwrap();
    // Moves are described once there has been one.
    scene.drain(owner).unwrap();
    let moved = "pulsepath_failovers_total{";
    let controller = || scene.controller_node().controller_http("/metrics");
    eventually(PATIENCE, || controller().unwrap().body.contains(moved));
    let controller = controller().unwrap();
    let mut exported_by_either = exported(&controller.body);
    exported_by_either.extend(exported(&agent.body));
    for name in ["files/alerts.yaml", "files/dashboard.json"] {
        let asked = metrics_in(&file(name));
        assert!(asked.len() > 10, "{asked:?}");
        let missing: Vec<_> = asked.difference(&exported_by_either).collect();
        assert!(
            missing.is_empty(),
            "{name}: {missing:?}\nexist: {exported_by_either:?}"
        );
    }
}

#[test]
fn the_dashboard_is_one_that_grafana_can_draw() {
    let objects = render(&["monitoring.dashboard.enabled=true"]);
    let map = objects.get("ConfigMap", "pulsepath-dashboard");
    let text = map["data"]["pulsepath.json"].as_str().unwrap();
    let dashboard: Value = serde_json::from_str(text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    let mut taken = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        let side = |name| panel["gridPos"][name].as_u64().unwrap();
        assert!(side("x") + side("w") <= 24, "{panel}");
        for y in side("y")..side("y") + side("h") {
            for x in side("x")..side("x") + side("w") {
                assert!(taken.insert((x, y)), "{panel} is drawn over another one");
            }
        }
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().unwrap();
            assert!(!metrics_in(expression).is_empty(), "{target}");
        }
    }
}

#[test]
fn prometheus_accepts_what_the_dashboard_asks() {
    let dashboard: Value = serde_json::from_str(&file("files/dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|it| it["targets"].as_array());
    let rules = targets.flatten().map(|target| {
        let expression = target["expr"].as_str().unwrap();
        // Grafana puts a duration there.
        let expression = expression.replace("$__rate_interval", "1m");
        serde_json::json!({ "alert": "Panel", "expr": expression, "labels": { "n": expression } })
    });
    let rules: Vec<Value> = rules.collect();
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("panels.yaml");
    let group = serde_json::json!({ "groups": [{ "name": "panels", "rules": rules }] });
    // JSON is YAML, too.
    fs::write(&path, group.to_string()).unwrap();
    run(promtool(&["check", "rules"]).arg(path)).unwrap();
}
