//! Lengths of time, as people write and read them.

use std::time::Duration;

/// Reads a length of time: `200ms`, `2s`, or as of old a number of seconds, `0.2`.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let time = match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?,
        Err(_) => humantime::parse_duration(text).map_err(|error| error.to_string())?,
    };
    if (Duration::from_millis(1)..=Duration::from_secs(3600)).contains(&time) {
        Ok(time)
    } else {
        Err("must be from 1ms to 1h".to_owned())
    }
}

/// `42 µs`, `3.1 ms`, `2.5 s`, `4 m 7 s`, `3 h 12 m`, `5 d 1 h`.
pub(super) fn words(time: Duration) -> String {
    let (micros, seconds) = (time.as_nanos() as f64 / 1e3, time.as_secs());
    match seconds {
        0 if micros < 999.5 => format!("{micros:.0} µs"),
        0 if micros < 9_950.0 => format!("{:.1} ms", micros / 1e3),
        0 if micros < 999_500.0 => format!("{:.0} ms", micros / 1e3),
        0..60 => format!("{:.1} s", time.as_secs_f64()),
        60..3600 => format!("{} m {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// [`words`] of a number of milliseconds as the controller's interface gives it.
pub(super) fn words_of_ms(ms: f64) -> String {
    words(Duration::try_from_secs_f64(ms / 1e3).unwrap_or_default())
}

/// Milliseconds, as programs and ping(8) have them.
pub(super) fn ms(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_units_are_read() {
        for (text, ms) in [
            ("0.2", 200),
            ("1", 1000),
            ("200ms", 200),
            ("1m 30s", 90_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn nonsense_and_extremes_are_refused() {
        for text in ["", "-1", "NaN", "inf", "0", "0ms", "2h", "1 fortnight"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lengths_are_told_with_two_units_at_most() {
        let cases = [
            (0, "0 µs"),
            (42_400, "42 µs"),
            (3_140_000, "3.1 ms"),
            (250_000_000, "250 ms"),
            (2_500_000_000, "2.5 s"),
            (247_000_000_000, "4 m 7 s"),
            (11_520_000_000_000, "3 h 12 m"),
            (435_600_000_000_000, "5 d 1 h"),
        ];
        for (nanos, expected) in cases {
            assert_eq!(words(Duration::from_nanos(nanos)), expected);
        }
    }
}
