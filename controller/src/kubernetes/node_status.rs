//! What is said of a node in its NodeHealth.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use probe_user::settings::HumanDuration;

use super::conditions::{Statement, agree};
use super::resources::{AgentHealth, AgentState, NodeHealthStatus, RoundTrip};
use crate::api::{self, Timestamp};
use crate::clock::Reading;
use crate::monitor::NodeView;

/// Said to whoever rotates keys, who asks the controller; it comes and goes with each leader.
const UNSAID: &str = "KeyNotConfirmed";

/// The status, given the conditions `before`; `warnings` are the planner's.
pub(super) fn status(
    view: &NodeView,
    warnings: &[api::Condition],
    before: &[Condition],
    now: Reading,
) -> NodeHealthStatus {
    let mut conditions = view.conditions(now.instant);
    conditions.retain(|condition| condition.name != UNSAID);
    conditions.extend(
        view.agent
            .filter(|agent| agent.draining)
            .map(|_| api::Condition {
                name: "Draining".to_owned(),
                message: "its agent said that it ends".to_owned(),
            }),
    );
    conditions.extend_from_slice(warnings);
    conditions.sort_by(|one, other| one.name.cmp(&other.name));
    let condition = |it: &api::Condition| {
        let statement = Statement {
            kind: &it.name,
            holds: true,
            reason: &it.name,
            message: it.message.clone(),
            generation: None,
        };
        statement.condition(before, now.wall)
    };
    NodeHealthStatus {
        state: view.state,
        reason: Some(view.reason),
        since: Some(Timestamp(view.since)),
        last_reply: view.heard.map(|at| Timestamp(now.wall_at(at))),
        incarnation: view.incarnation.map(|number| format!("{number:016x}")),
        agent: view.agent.as_ref().map(agent),
        addresses: view
            .addresses
            .iter()
            .map(|it| it.address.to_string())
            .collect(),
        round_trip: view.round_trips.map(|times| RoundTrip {
            average: human(times.average),
            min: human(times.min),
            max: human(times.max),
        }),
        conditions: conditions.iter().map(condition).collect(),
    }
}

/// Whether two statuses differ in nothing that is worth a write: how long replies take and when the
/// last one came changes all the time, and two controllers do not see a change at the same moment.
pub(super) fn alike(one: &NodeHealthStatus, other: &NodeHealthStatus) -> bool {
    let draining = |it: &NodeHealthStatus| it.agent.as_ref().map(|agent| agent.state);
    one.state == other.state
        && one.reason == other.reason
        && one.incarnation == other.incarnation
        && one.addresses == other.addresses
        && draining(one) == draining(other)
        && agree(&one.conditions, &other.conditions)
}

fn agent(agent: &api::Agent) -> AgentHealth {
    AgentHealth {
        state: match (agent.draining, agent.up) {
            (true, _) => AgentState::Draining,
            (false, true) => AgentState::Up,
            (false, false) => AgentState::Silent,
        },
        checks_ok: agent.checks_ok,
    }
}

/// Whole microseconds: nobody reads more.
fn human(time: Duration) -> String {
    let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    HumanDuration(Duration::from_micros(micros)).to_string()
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::health::State;

    fn view() -> NodeView {
        NodeView::new("n1".to_owned(), SystemTime::now())
    }

    fn warning(message: &str) -> api::Condition {
        api::Condition {
            name: "NotFenced".to_owned(),
            message: message.to_owned(),
        }
    }

    #[test]
    fn a_reply_alone_is_not_worth_a_write_and_a_state_is() {
        let now = Reading::take();
        let before = status(&view(), &[], &[], now);
        let mut heard = view();
        heard.heard = Some(now.instant);
        assert!(alike(&status(&heard, &[], &[], now), &before));
        heard.state = State::Available;
        assert!(!alike(&status(&heard, &[], &[], now), &before));
    }

    #[test]
    fn a_condition_is_worth_a_write_and_other_words_for_it_are_not() {
        let now = Reading::take();
        let before = status(&view(), &[], &[], now);
        let warned = status(&view(), &[warning("eth0: refused")], &[], now);
        assert!(!alike(&warned, &before));
        let later = status(
            &view(),
            &[warning("eth1: refused")],
            &warned.conditions,
            now,
        );
        assert!(alike(&later, &warned));
    }
}
