//! The layers themselves: where each value comes from, and which one holds.

use std::ffi::OsString;
use std::path::Path;

use config::{Config, ConfigError, File, FileFormat, Map, Source, Value, ValueKind};

use super::SettingsError;

/// Stands between the parts of a key in an environment variable's name.
const SEPARATOR: &str = "__";

/// Single values from outside the file, in the order in which they were given.
#[derive(Clone, Debug, Default)]
pub(super) struct Assignments(Vec<(String, Value)>);

impl Assignments {
    /// The variables whose names begin with `prefix` and the separator.
    pub(super) fn from_environment(
        prefix: &str,
        variables: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<Self, SettingsError> {
        let start = format!("{prefix}{SEPARATOR}");
        let mut assignments = Vec::new();
        for (name, value) in variables {
            let name = name.to_string_lossy();
            let Some(key) = name.strip_prefix(&start) else {
                continue;
            };
            let origin = format!("environment variable {name}");
            let key = key.to_lowercase().replace(SEPARATOR, ".");
            let text = format!("{key}={}", value.to_string_lossy());
            assignments.push(assignment(&text, &origin)?);
        }
        Ok(Self(assignments))
    }

    /// `KEY=VALUE`, each.
    pub(super) fn from_overrides(overrides: &[String]) -> Result<Self, SettingsError> {
        overrides
            .iter()
            .map(|text| assignment(text, "--set"))
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl Source for Assignments {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, ConfigError> {
        Ok(self.0.iter().cloned().collect())
    }
}

fn assignment(text: &str, origin: &str) -> Result<(String, Value), SettingsError> {
    let refused = || SettingsError::Override {
        text: text.to_owned(),
        origin: origin.to_owned(),
    };
    let (key, value) = text.split_once('=').ok_or_else(refused)?;
    let is_part = |part: &str| {
        !part.is_empty()
            && part
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
    };
    if !key.split('.').all(is_part) {
        return Err(refused());
    }
    Ok((key.to_owned(), parse(value, origin)))
}

/// A TOML value if it is one, else the text itself, so that neither `200ms` nor a name needs
/// quotes.
fn parse(text: &str, origin: &str) -> Value {
    let origin = origin.to_owned();
    match text.parse::<toml::Value>() {
        Ok(value) => from_toml(value, &origin),
        Err(_) => Value::new(Some(&origin), text),
    }
}

fn from_toml(value: toml::Value, origin: &String) -> Value {
    let kind = match value {
        toml::Value::String(text) => ValueKind::String(text),
        toml::Value::Integer(number) => ValueKind::I64(number),
        toml::Value::Float(number) => ValueKind::Float(number),
        toml::Value::Boolean(flag) => ValueKind::Boolean(flag),
        toml::Value::Datetime(time) => ValueKind::String(time.to_string()),
        toml::Value::Array(items) => ValueKind::Array(
            items
                .into_iter()
                .map(|item| from_toml(item, origin))
                .collect(),
        ),
        toml::Value::Table(table) => ValueKind::Table(
            table
                .into_iter()
                .map(|(key, item)| (key, from_toml(item, origin)))
                .collect(),
        ),
    };
    Value::new(Some(origin), kind)
}

/// All layers, merged; each value still knows where it comes from.
#[derive(Debug)]
pub(super) struct Layers(Value);

impl Layers {
    pub(super) fn merge(
        file: Option<&Path>,
        environment: Assignments,
        overrides: Assignments,
    ) -> Result<Self, SettingsError> {
        let mut layers = Config::builder();
        if let Some(file) = file {
            layers = layers.add_source(File::from(file).format(FileFormat::Toml));
        }
        let merged = layers.add_source(environment).add_source(overrides).build();
        merged
            .map(|merged| Self(merged.cache))
            .map_err(|problem| SettingsError::File {
                file: file.unwrap_or(Path::new("the environment")).to_owned(),
                problem: Box::new(problem),
            })
    }

    /// The merged values without their sources.
    pub(super) fn to_json(&self) -> serde_json::Value {
        to_json(&self.0)
    }

    /// The value of a key such as `checks[0].period`, as text, unless it is a table or a list.
    pub(super) fn scalar(&self, key: &str) -> Option<String> {
        let value = self
            .path(key)
            .last()
            .filter(|_| self.path(key).count() == parts(key).count())?;
        match to_json(value) {
            serde_json::Value::Object(_) | serde_json::Value::Array(_) => None,
            scalar => Some(scalar.to_string()),
        }
    }

    /// Where the value of a key comes from: its own source, or one of a value below it, or that of
    /// the nearest value above it.
    pub(super) fn origin(&self, key: &str) -> String {
        let way: Vec<_> = self.path(key).collect();
        let origin = way.iter().rev().find_map(|value| origin_within(value));
        origin.unwrap_or("the defaults").to_owned()
    }

    /// The values on the way to a key, as far as they exist.
    fn path<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a Value> {
        let mut here = &self.0;
        parts(key).map_while(move |part| {
            here = match &here.kind {
                ValueKind::Table(table) => table.get(part)?,
                ValueKind::Array(items) => items.get(part.parse::<usize>().ok()?)?,
                _ => return None,
            };
            Some(here)
        })
    }
}

fn origin_within(value: &Value) -> Option<&str> {
    value.origin().or_else(|| match &value.kind {
        ValueKind::Table(table) => table.values().find_map(origin_within),
        ValueKind::Array(items) => items.iter().find_map(origin_within),
        _ => None,
    })
}

fn parts(key: &str) -> impl Iterator<Item = &str> {
    key.split(['.', '[', ']']).filter(|part| !part.is_empty())
}

fn to_json(value: &Value) -> serde_json::Value {
    match &value.kind {
        ValueKind::Nil => serde_json::Value::Null,
        ValueKind::Boolean(flag) => (*flag).into(),
        ValueKind::I64(number) => (*number).into(),
        ValueKind::U64(number) => (*number).into(),
        // TOML has neither; both are kept exact as text.
        ValueKind::I128(number) => number.to_string().into(),
        ValueKind::U128(number) => number.to_string().into(),
        ValueKind::Float(number) => (*number).into(),
        ValueKind::String(text) => text.as_str().into(),
        ValueKind::Array(items) => items.iter().map(to_json).collect(),
        ValueKind::Table(table) => table
            .iter()
            .map(|(key, item)| (key.clone(), to_json(item)))
            .collect(),
    }
}
