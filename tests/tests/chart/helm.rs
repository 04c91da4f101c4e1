//! Helm, and what it renders.

use std::path::{Path, PathBuf};
use std::process::Command;

use pulsepath_tests::run;
use serde_json::Value;

/// Where `cargo xtask setup --tests` puts programs.
const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/tools");

/// The chart's directory.
pub(crate) fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/pulsepath")
}

/// One of the chart's files.
pub(crate) fn file(name: &str) -> String {
    std::fs::read_to_string(chart().join(name)).unwrap()
}

/// A program that tests need.
#[track_caller]
pub(crate) fn tool(path: &str) -> Command {
    let path = Path::new(TOOLS).join(path);
    assert!(
        path.is_file(),
        "{} is missing: run `cargo xtask setup --tests`",
        path.display()
    );
    Command::new(path)
}

/// `helm`, with these words after the chart.
fn helm(verb: &[&str], set: &[&str]) -> Result<String, String> {
    let mut helm = tool("helm/helm");
    helm.args(verb).arg(chart());
    helm.args(["--namespace", "pulsepath"]);
    for assignment in set {
        helm.args(["--set", assignment]);
    }
    run(&mut helm).map_err(|error| format!("{error:#}"))
}

/// What `helm lint` says.
pub(crate) fn lint(set: &[&str]) -> Result<String, String> {
    helm(&["lint", "--strict"], set)
}

/// All objects that the chart makes with these values (`KEY=VALUE`), or why it makes none.
pub(crate) fn try_render(set: &[&str]) -> Result<Objects, String> {
    let text = helm(&["template", "pulsepath"], set)?;
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&text).map_err(|error| format!("{error}\n{text}"))?;
    let some = |document: &Value| !document.is_null();
    Ok(Objects(documents.into_iter().filter(some).collect()))
}

/// As [`try_render`], of values that are accepted.
#[track_caller]
pub(crate) fn render(set: &[&str]) -> Objects {
    try_render(set).unwrap()
}

/// Rendered objects.
#[derive(Debug)]
pub(crate) struct Objects(Vec<Value>);

impl Objects {
    /// The one of this kind and name, if there is one.
    pub(crate) fn find(&self, kind: &str, name: &str) -> Option<&Value> {
        let is = |object: &&Value| object["kind"] == kind && object["metadata"]["name"] == name;
        self.0.iter().find(is)
    }

    /// The one of this kind and name.
    #[track_caller]
    pub(crate) fn get(&self, kind: &str, name: &str) -> &Value {
        let found = self.find(kind, name);
        found.unwrap_or_else(|| panic!("no {kind} {name} in {:?}", self.names()))
    }

    /// Kind and name of each.
    pub(crate) fn names(&self) -> Vec<(&str, &str)> {
        let text = |value| Value::as_str(value).unwrap();
        let objects = self.0.iter();
        objects
            .map(|it| (text(&it["kind"]), text(&it["metadata"]["name"])))
            .collect()
    }

    /// The agents' Pods.
    pub(crate) fn agent(&self) -> &Value {
        &self.get("DaemonSet", "pulsepath-agent")["spec"]["template"]["spec"]
    }

    /// The controllers' Pods.
    pub(crate) fn controller(&self) -> &Value {
        &self.get("Deployment", "pulsepath-controller")["spec"]["template"]["spec"]
    }
}
