//! Settings in layers: defaults, a TOML file, the environment, `--set KEY=VALUE`; each overrides
//! the ones before it.

mod duration;
mod layers;

use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use config::ConfigError;
use serde::de::DeserializeOwned;

pub use duration::HumanDuration;
use layers::{Assignments, Layers};

/// Why settings were not accepted.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file is missing, unreadable or not TOML.
    #[error("cannot read settings from {}: {problem}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        problem: Box<ConfigError>,
    },
    /// An override has no `=`, or its key is no key.
    #[error("`{text}` (from {origin}) is not of the form KEY=VALUE, such as `beat.period=200ms`")]
    Override {
        /// What was given.
        text: String,
        /// Where it was given.
        origin: String,
    },
    /// A key that does not exist, or a value of another type than the key's.
    #[error("setting `{key}`{value} (from {origin}): {problem}")]
    Value {
        /// The key, dotted.
        key: String,
        /// ` = VALUE`, or empty where the key itself is wrong.
        value: String,
        /// Where the value comes from.
        origin: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A value of the right type that is not accepted.
    #[error("{invalid} (from {origin})")]
    Invalid {
        /// Which value, and what is accepted instead.
        invalid: Invalid,
        /// Where the value comes from.
        origin: String,
    },
}

/// A value that its type allows and the daemon does not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("setting `{key}` = {value} is not accepted: {accepted}")]
pub struct Invalid {
    /// The key, dotted; elements of lists as `checks[0].period`.
    pub key: String,
    /// The value, as people write it.
    pub value: String,
    /// What is accepted, as a sentence part such as `must be between 10ms and 60s`.
    pub accepted: String,
}

impl Invalid {
    /// `value` of `key` is refused; `accepted` says what is not, as in [`Self::accepted`].
    pub fn new(
        key: impl Into<String>,
        value: impl fmt::Display,
        accepted: impl Into<String>,
    ) -> Self {
        Self {
            key: key.into(),
            value: value.to_string(),
            accepted: accepted.into(),
        }
    }

    /// Refuses a value outside a range, ends included, and names the range.
    pub fn unless_within<T: PartialOrd + fmt::Display>(
        key: impl Into<String>,
        value: &T,
        range: RangeInclusive<T>,
    ) -> Result<(), Self> {
        if range.contains(value) {
            return Ok(());
        }
        Err(Self::new(
            key,
            value,
            format!("must be between {} and {}", range.start(), range.end()),
        ))
    }
}

/// Settings of a daemon, beyond what their types say.
pub trait Validate {
    /// Checks ranges, and values against each other.
    fn validate(&self) -> Result<(), Invalid>;
}

/// Loads and validates settings.
///
/// `env_prefix` such as `PULSEPATH_AGENT` makes `PULSEPATH_AGENT__BEAT__PERIOD=200ms` mean
/// `beat.period=200ms`. Values from environment and overrides are TOML values, or else plain
/// strings. `T` denies unknown fields, and defaults all it can.
pub fn load<T: DeserializeOwned + Validate>(
    file: Option<&Path>,
    env_prefix: &str,
    overrides: &[String],
) -> Result<T, SettingsError> {
    let environment = Assignments::from_environment(env_prefix, std::env::vars_os())?;
    load_from(file, environment, Assignments::from_overrides(overrides)?)
}

fn load_from<T: DeserializeOwned + Validate>(
    file: Option<&Path>,
    environment: Assignments,
    overrides: Assignments,
) -> Result<T, SettingsError> {
    let layers = Layers::merge(file, environment, overrides)?;
    let settings: T = serde_path_to_error::deserialize(layers.to_json()).map_err(|error| {
        let key = error.path().to_string();
        SettingsError::Value {
            value: layers
                .scalar(&key)
                .map(|value| format!(" = {value}"))
                .unwrap_or_default(),
            origin: layers.origin(&key),
            problem: error.into_inner().to_string(),
            key,
        }
    })?;
    match settings.validate() {
        Ok(()) => Ok(settings),
        Err(invalid) => {
            let origin = layers.origin(&invalid.key);
            Err(SettingsError::Invalid { invalid, origin })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::time::Duration;

    #[derive(Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Example {
        node: String,
        beat: Beat,
        checks: Vec<Check>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Beat {
        period: HumanDuration,
        retries: u16,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Check {
        kind: Kind,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "lowercase")]
    enum Kind {
        Tcp,
        Http,
    }

    impl Default for Beat {
        fn default() -> Self {
            Self {
                period: HumanDuration(Duration::from_millis(100)),
                retries: 3,
            }
        }
    }

    impl Validate for Example {
        fn validate(&self) -> Result<(), Invalid> {
            let range =
                HumanDuration(Duration::from_millis(10))..=HumanDuration(Duration::from_secs(60));
            Invalid::unless_within("beat.period", &self.beat.period, range)
        }
    }

    fn try_load(file: &str, environment: &[(&str, &str)], set: &[&str]) -> Result<Example, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("agent.toml");
        std::fs::write(&path, file).unwrap();
        let variables = environment
            .iter()
            .map(|(name, value)| (name.into(), value.into()));
        let set: Vec<String> = set.iter().map(|&text| text.to_owned()).collect();
        let load = || {
            let environment = Assignments::from_environment("PULSEPATH_AGENT", variables)?;
            load_from(Some(&path), environment, Assignments::from_overrides(&set)?)
        };
        load().map_err(|error: SettingsError| error.to_string())
    }

    fn refusal(file: &str, environment: &[(&str, &str)], set: &[&str]) -> String {
        try_load(file, environment, set).unwrap_err()
    }

    fn assert_says(text: &str, parts: &[&str]) {
        for part in parts {
            assert!(text.contains(part), "{part:?} is not in {text:?}");
        }
    }

    #[test]
    fn what_no_layer_sets_has_its_default() {
        let settings = try_load("node = 'n1'", &[], &[]).unwrap();
        assert_eq!(settings.node, "n1");
        assert_eq!(settings.beat.period.0, Duration::from_millis(100));
    }

    #[test]
    fn environment_overrides_file_and_set_overrides_environment() {
        let file = "node = 'file'\n[beat]\nperiod = '1s'\nretries = 1";
        let environment = [
            ("PULSEPATH_AGENT__NODE", "environment"),
            ("PULSEPATH_AGENT__BEAT__PERIOD", "200ms"),
            ("PULSEPATH_OTHER__NODE", "ignored"),
        ];
        let settings = try_load(file, &environment, &["node=set"]).unwrap();
        assert_eq!(settings.node, "set");
        assert_eq!(settings.beat.period.0, Duration::from_millis(200));
        assert_eq!(settings.beat.retries, 1);
    }

    #[test]
    fn numbers_and_lists_can_be_set_from_outside_the_file() {
        let environment = [("PULSEPATH_AGENT__CHECKS", "[{ kind = 'http' }]")];
        let settings = try_load("", &environment, &["beat.retries=7"]).unwrap();
        assert_eq!(settings.beat.retries, 7);
        assert_eq!(settings.checks[0].kind, Kind::Http);
    }

    #[test]
    fn an_unknown_key_is_named_with_its_source() {
        let error = refusal("[beat]\nperod = '1s'", &[], &[]);
        assert_says(
            &error,
            &[
                "`beat.perod`",
                "agent.toml",
                "expected `period` or `retries`",
            ],
        );
        let error = refusal("", &[("PULSEPATH_AGENT__NODES", "n1")], &[]);
        assert_says(
            &error,
            &["`nodes`", "environment variable PULSEPATH_AGENT__NODES"],
        );
        let error = refusal("", &[], &["bet.period=1s"]);
        assert_says(&error, &["`bet`", "--set"]);
    }

    #[test]
    fn a_value_of_the_wrong_type_is_named_with_key_value_and_source() {
        let error = refusal("", &[], &["beat.retries=many"]);
        assert_says(
            &error,
            &["`beat.retries` = \"many\"", "--set", "expected u16"],
        );
        let error = refusal("[[checks]]\nkind = 'udp'", &[], &[]);
        assert_says(
            &error,
            &["`checks[0].kind`", "agent.toml", "`tcp` or `http`"],
        );
    }

    #[test]
    fn a_duration_without_a_unit_is_refused() {
        let error = refusal("[beat]\nperiod = 200", &[], &[]);
        assert_says(
            &error,
            &["`beat.period` = 200", "agent.toml", "such as \"200ms\""],
        );
    }

    #[test]
    fn a_value_out_of_range_is_named_with_the_range() {
        let error = refusal("", &[("PULSEPATH_AGENT__BEAT__PERIOD", "5ms")], &[]);
        assert_says(
            &error,
            &[
                "`beat.period` = 5ms",
                "between 10ms and 1m",
                "PULSEPATH_AGENT__BEAT__PERIOD",
            ],
        );
    }

    #[test]
    fn an_override_without_a_value_is_refused() {
        assert_says(
            &refusal("", &[], &["beat.period"]),
            &["`beat.period`", "KEY=VALUE"],
        );
    }

    #[test]
    fn a_missing_or_broken_file_is_named() {
        let missing = load_from::<Example>(
            Some(Path::new("/nonexistent/agent.toml")),
            Assignments::default(),
            Assignments::default(),
        );
        assert_says(
            &missing.unwrap_err().to_string(),
            &["/nonexistent/agent.toml"],
        );
        assert_says(&refusal("node = ", &[], &[]), &["agent.toml", "line 1"]);
    }
}
