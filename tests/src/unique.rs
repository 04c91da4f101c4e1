//! Names that no other test, thread or process uses, and that say who made them.

use std::sync::atomic::{AtomicU32, Ordering};

/// Starts every name that this crate makes outside its own process.
pub(crate) const PREFIX: &str = "pulsepath-test";

/// `pulsepath-test-<purpose>-<process id>-<counter>`.
pub(crate) fn name(purpose: &str) -> String {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let counter = COUNTER.fetch_add(1, Ordering::Relaxed);
    format!("{PREFIX}-{purpose}-{}-{counter}", std::process::id())
}

/// The id of the process that made `name`, if [`name`] made it.
pub(crate) fn maker(name: &str) -> Option<u32> {
    let rest = name.strip_prefix(PREFIX)?.strip_prefix('-')?;
    let mut parts = rest.rsplit('-');
    parts.next()?.parse::<u32>().ok()?;
    parts.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_its_maker() {
        assert_eq!(maker(&name("some-purpose")), Some(std::process::id()));
    }

    #[test]
    fn two_names_for_one_purpose_differ() {
        assert_ne!(name("same"), name("same"));
    }

    #[test]
    fn a_foreign_name_has_no_maker() {
        assert_eq!(maker("n1"), None);
        assert_eq!(maker("pulsepath-test-words-only"), None);
        assert_eq!(maker("other-test-x-12-3"), None);
    }
}
