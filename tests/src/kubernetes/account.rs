//! What the controllers asked of the API server, by its own account.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

/// A right as a role grants it: one verb on one resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// The API group; empty for the core's.
    pub group: String,
    /// The resource, with its subresource: `nodes`, `nodehealths/status`.
    pub resource: String,
    /// Such as `get`.
    pub verb: String,
}

impl Right {
    /// The rights that the rules of `role`, a Role or ClusterRole, grant.
    pub fn granted_by(role: &Value) -> BTreeSet<Self> {
        let texts = |rule: &Value, field: &str| -> Vec<String> {
            let values = rule[field].as_array().into_iter().flatten();
            values
                .filter_map(|value| Some(value.as_str()?.to_owned()))
                .collect()
        };
        let mut rights = BTreeSet::new();
        for rule in role["rules"].as_array().into_iter().flatten() {
            for group in texts(rule, "apiGroups") {
                for resource in texts(rule, "resources") {
                    rights.extend(texts(rule, "verbs").into_iter().map(|verb| Self {
                        group: group.clone(),
                        resource: resource.clone(),
                        verb,
                    }));
                }
            }
        }
        rights
    }

    /// Whether it changes anything.
    fn writes(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
    }
}

/// One call.
#[derive(Clone, Debug)]
struct Call {
    right: Right,
    /// The status code of the answer.
    code: u64,
}

/// All calls of the controllers so far.
#[derive(Clone, Debug)]
pub struct Account(Vec<Call>);

impl Account {
    /// Reads an API server's audit log.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn read(log: &Path) -> Result<Self> {
        let text = fs::read_to_string(log).with_context(|| format!("read {}", log.display()))?;
        // The last line may be half written.
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        Ok(Self(lines.filter_map(|line: Value| call(&line)).collect()))
    }

    /// How many calls there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The rights that were used.
    pub fn used(&self) -> BTreeSet<Right> {
        let allowed = self.0.iter().filter(|call| call.code != FORBIDDEN);
        allowed.map(|call| call.right.clone()).collect()
    }

    /// The rights that were missing.
    pub fn missing(&self) -> BTreeSet<Right> {
        let refused = self.0.iter().filter(|call| call.code == FORBIDDEN);
        refused.map(|call| call.right.clone()).collect()
    }

    /// The rights by which anything was changed after the first `since` calls, one for each call.
    pub fn writes_after(&self, since: usize) -> Vec<Right> {
        let later = self.0.iter().skip(since).map(|call| &call.right);
        later.filter(|right| right.writes()).cloned().collect()
    }
}

const FORBIDDEN: u64 = 403;

/// A line of the log; none if it is about no resource, or about a call that was noted before.
fn call(line: &Value) -> Option<Call> {
    let object = &line["objectRef"];
    let resource = object["resource"].as_str()?;
    let verb = line["verb"].as_str()?;
    // A watch is noted when it begins, and again when it ends.
    if line["stage"] == "ResponseComplete" && verb == "watch" {
        return None;
    }
    let resource = match object["subresource"].as_str() {
        Some(part) => format!("{resource}/{part}"),
        None => resource.to_owned(),
    };
    Some(Call {
        right: Right {
            group: object["apiGroup"].as_str().unwrap_or_default().to_owned(),
            resource,
            verb: verb.to_owned(),
        },
        code: line["responseStatus"]["code"].as_u64()?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_uses_the_right_to_its_subresource() {
        let line = json!({
            "stage": "ResponseComplete", "verb": "patch", "responseStatus": { "code": 200 },
            "objectRef": { "apiGroup": "pulsepath.dev", "resource": "nodehealths", "subresource": "status" },
        });
        let right = call(&line).map(|call| call.right.resource);
        assert_eq!(right.as_deref(), Some("nodehealths/status"));
    }

    #[test]
    fn a_rule_grants_every_verb_on_every_resource() {
        let rule =
            json!({ "apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get", "list"] });
        assert_eq!(Right::granted_by(&json!({ "rules": [rule] })).len(), 4);
    }
}
