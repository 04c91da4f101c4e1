//! Until when a controller may decide.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Until when one term of this controller lasts, shared by all that act in it. Clones are the same.
///
/// Whoever leads puts the end off in time; whoever acts looks first. So nothing has to be heard for a
/// term to end.
#[derive(Clone, Debug)]
pub struct Tenure(Option<Arc<Mutex<Instant>>>);

impl Tenure {
    /// Of the only controller there is.
    pub const fn endless() -> Self {
        Self(None)
    }

    /// Ends at `end`, unless that is put off.
    pub fn until(end: Instant) -> Self {
        Self(Some(Arc::new(Mutex::new(end))))
    }

    /// When it ends, as things are; `None`: never.
    pub fn end(&self) -> Option<Instant> {
        self.0.as_ref().map(|end| *lock(end))
    }

    /// Whether it is over.
    pub fn is_over(&self, now: Instant) -> bool {
        self.end().is_some_and(|end| now >= end)
    }

    /// Makes `end` its end.
    pub fn set_end(&self, end: Instant) {
        if let Some(known) = &self.0 {
            *lock(known) = end;
        }
    }
}

fn lock(end: &Mutex<Instant>) -> MutexGuard<'_, Instant> {
    // A time is never half written.
    end.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_end_is_put_off_for_all_who_share_it() {
        let now = Instant::now();
        let [soon, late] = [1, 5].map(|seconds| now + Duration::from_secs(seconds));
        let tenure = Tenure::until(soon);
        let shared = tenure.clone();
        assert!(!shared.is_over(now) && shared.is_over(soon));
        tenure.set_end(late);
        assert!(!shared.is_over(soon) && shared.is_over(late));
    }
}
