//! Every value is described, and nothing else.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::helm::file;

/// Tables that are described as one: what is in them is the user's.
const WHOLE: [&str; 6] = [
    "nodeSelector",
    "affinity",
    "resources",
    "podAnnotations",
    "labels",
    "annotations",
];

fn leaves(path: &str, value: &Value, found: &mut BTreeSet<String>) {
    let last = path.rsplit('.').next().unwrap_or(path);
    match value {
        Value::Object(table) if !WHOLE.contains(&last) && !table.is_empty() => {
            for (key, value) in table {
                let dot = if path.is_empty() { "" } else { "." };
                leaves(&format!("{path}{dot}{key}"), value, found);
            }
        }
        _ => {
            found.insert(path.to_owned());
        }
    }
}

#[test]
fn every_value_is_in_the_readme_and_the_readme_has_no_other() {
    let values: Value = serde_saphyr::from_str(&file("values.yaml")).unwrap();
    let mut exist = BTreeSet::new();
    leaves("", &values, &mut exist);
    let readme = file("README.md");
    let (_, table) = readme.split_once("| value | default | meaning |").unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    let described = rows.filter_map(|row| row.split_once('`'));
    let described: BTreeSet<String> = described.map(|(name, _)| name.to_owned()).collect();
    assert_eq!(described, exist);
}
