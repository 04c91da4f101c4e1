//! Which seeds a random search takes.

use std::ops::Range;

/// The seeds of a search that expects nothing: so many, unless the environment variable `name` asks
/// for more (`100000`) or for certain ones (`4711..4712`).
///
/// # Panics
/// The variable is neither.
pub fn seeds(name: &str, count: u64) -> Range<u64> {
    let Ok(asked) = std::env::var(name) else {
        return 0..count;
    };
    let number = |text: &str| -> u64 {
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={asked}: a number, or a range like 10..20"))
    };
    match asked.split_once("..") {
        Some((first, end)) => number(first)..number(end),
        None => 0..number(&asked),
    }
}
