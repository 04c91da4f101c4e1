//! Durations as people write them.

use std::fmt;
use std::time::Duration;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// A duration that is written with its unit: `200ms`, `1m 30s`. Zero may be written `0`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct HumanDuration(pub Duration);

impl fmt::Display for HumanDuration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_duration(self.0).fmt(formatter)
    }
}

impl std::str::FromStr for HumanDuration {
    type Err = humantime::DurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.trim() == "0" {
            return Ok(Self::default());
        }
        humantime::parse_duration(text).map(Self)
    }
}

impl Serialize for HumanDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HumanDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DurationVisitor)
    }
}

struct DurationVisitor;

impl Visitor<'_> for DurationVisitor {
    type Value = HumanDuration;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a duration with its unit, such as \"200ms\" or \"1m 30s\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        text.parse()
            .map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
        if number == 0 {
            return Ok(HumanDuration::default());
        }
        Err(E::invalid_value(de::Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            Err(_) => Err(E::invalid_value(de::Unexpected::Signed(number), &self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written_with_their_unit() {
        let read = |text: &str| serde_json::from_str::<HumanDuration>(text);
        assert_eq!(read("\"200ms\"").unwrap().0, Duration::from_millis(200));
        assert_eq!(read("\"1m 30s\"").unwrap().0, Duration::from_secs(90));
        assert_eq!(
            HumanDuration(Duration::from_millis(200)).to_string(),
            "200ms"
        );
    }

    #[test]
    fn zero_needs_no_unit_and_every_other_number_does() {
        let read = |text: &str| serde_json::from_str::<HumanDuration>(text);
        for zero in ["0", "\"0\"", "\"0s\""] {
            assert_eq!(read(zero).unwrap().0, Duration::ZERO, "{zero}");
        }
        for refused in ["200", "-1", "\"200\"", "1.5", "true", "\"\""] {
            assert!(read(refused).is_err(), "{refused}");
        }
    }
}
