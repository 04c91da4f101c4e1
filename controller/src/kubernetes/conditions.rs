//! Conditions in statuses.

use std::time::SystemTime;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

/// What there is to say.
pub(super) struct Statement<'a> {
    /// What it is about.
    pub(super) kind: &'a str,
    pub(super) holds: bool,
    /// Why, in one word.
    pub(super) reason: &'a str,
    /// Why, for people.
    pub(super) message: String,
    /// Of the spec that it is about.
    pub(super) generation: Option<i64>,
}

impl Statement<'_> {
    /// As a condition: it was so since the time that `before` says, if it was so before.
    pub(super) fn condition(self, before: &[Condition], now: SystemTime) -> Condition {
        let status = if self.holds { "True" } else { "False" };
        let same = |it: &&Condition| it.type_ == self.kind && it.status == status;
        let since = before
            .iter()
            .find(same)
            .map(|it| it.last_transition_time.clone());
        Condition {
            type_: self.kind.to_owned(),
            status: status.to_owned(),
            reason: self.reason.to_owned(),
            message: self.message,
            observed_generation: self.generation,
            last_transition_time: since.unwrap_or_else(|| time(now)),
        }
    }
}

/// Whether two sets of conditions say the same, however they put it.
pub(super) fn agree(some: &[Condition], others: &[Condition]) -> bool {
    let parts = |it: &Condition| (it.type_.clone(), it.status.clone(), it.reason.clone());
    some.len() == others.len() && some.iter().map(parts).eq(others.iter().map(parts))
}

fn time(at: SystemTime) -> Time {
    Time(Timestamp::try_from(at).unwrap_or_default())
}
