//! Waiting for conditions, instead of sleeping for luck.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// Pause between two looks at a condition.
const PAUSE: Duration = Duration::from_millis(5);

/// What a condition may return: `bool`, `Option<T>` or `Result<T, E>`.
pub trait Condition {
    /// What is there once the condition holds.
    type Value;

    /// The value, or why the condition does not hold yet.
    fn met(self) -> Result<Self::Value, String>;
}

impl Condition for bool {
    type Value = ();

    fn met(self) -> Result<(), String> {
        if self {
            Ok(())
        } else {
            Err("it is still false".into())
        }
    }
}

impl<T> Condition for Option<T> {
    type Value = T;

    fn met(self) -> Result<T, String> {
        self.ok_or_else(|| "there is still nothing".into())
    }
}

impl<T, E: Debug> Condition for Result<T, E> {
    type Value = T;

    fn met(self) -> Result<T, String> {
        self.map_err(|error| format!("{error:?}"))
    }
}

/// Waits until `condition` holds and returns its value.
///
/// # Panics
/// It does not hold within `timeout`. The message carries the last reason.
#[track_caller]
pub fn eventually<C: Condition>(timeout: Duration, condition: impl FnMut() -> C) -> C::Value {
    match within(timeout, condition) {
        Ok(value) => value,
        Err(reason) => panic!("not met within {timeout:?}: {reason}"),
    }
}

/// Waits until `condition` holds and returns its value.
///
/// # Errors
/// The last reason why it did not hold within `timeout`. It is looked at once more after the time
/// is over, so a condition that takes long itself is still seen at least twice.
pub fn within<C: Condition>(
    timeout: Duration,
    mut condition: impl FnMut() -> C,
) -> Result<C::Value, String> {
    let deadline = Instant::now() + timeout;
    loop {
        let over = Instant::now() >= deadline;
        match condition().met() {
            Ok(value) => return Ok(value),
            Err(reason) if over => return Err(reason),
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_that_comes_true_gives_its_value() {
        let mut looks = 0;
        let value = eventually(Duration::from_secs(5), || {
            looks += 1;
            (looks == 3).then_some("there")
        });
        assert_eq!((value, looks), ("there", 3));
    }

    #[test]
    fn a_condition_that_never_holds_gives_its_last_reason() {
        let outcome = within(Duration::ZERO, || Err::<(), _>("no route"));
        assert_eq!(outcome, Err("\"no route\"".into()));
    }
}
