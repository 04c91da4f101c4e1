//! The core agrees with a reference model of the same rules on random histories.

use std::time::{Duration, Instant};

use controller::health::State::{self, Available, Unavailable, Unknown, Unreachable};
use controller::health::{Evidence, Health, HealthSettings, Heard, NodeIndex};
use proptest::prelude::*;

const TIMEOUT: Duration = Duration::from_millis(1000);
const NODE: NodeIndex = NodeIndex(3);

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A reply arrives.
    Reply { agent_up: bool, incarnation: u64 },
    /// A round begins.
    Round { excused: bool },
    /// Others say that they heard the node just now.
    Evidence { lease_over: bool },
}

/// The rules once more, as short as they can be said. `silent`: for how long nobody has heard the
/// node, or nobody but the controller, if its lease is over.
fn model(state: State, step: Step, silent: Duration) -> State {
    match (step, state) {
        (Step::Evidence { .. }, state) => state,
        (Step::Reply { agent_up: true, .. }, _) => Available,
        (Step::Reply { .. }, Available | Unavailable) => Unavailable,
        (Step::Reply { .. }, Unknown | Unreachable) => Unreachable,
        (Step::Round { .. }, _) if silent > TIMEOUT => Unreachable,
        (Step::Round { .. }, state) => state,
    }
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let step = prop_oneof![
        3 => (any::<bool>(), 1..3u64)
            .prop_map(|(agent_up, incarnation)| Step::Reply { agent_up, incarnation }),
        3 => prop::bool::weighted(0.2).prop_map(|excused| Step::Round { excused }),
        2 => prop::bool::weighted(0.2).prop_map(|lease_over| Step::Evidence { lease_over }),
    ];
    let delay = prop_oneof![4 => 0..400u64, 1 => 400..1500u64];
    prop::collection::vec((delay, step), 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_core_agrees_with_the_model_on_every_history(steps in steps()) {
        let mut health = Health::new(HealthSettings {
            timeout: TIMEOUT,
            unavailable_timeout: Duration::ZERO,
            announce_after: Duration::from_secs(5),
        });
        let mut now = Instant::now();
        health.begin(now, NODE, true, None);
        let (mut state, mut last_round) = (Unknown, now);
        // For how long the controller has not heard it, and nobody has.
        let (mut silent, mut unheard) = (Duration::ZERO, Duration::ZERO);
        let mut last_reply = now;
        for (delay, step) in steps {
            let delay = Duration::from_millis(delay);
            now += delay;
            silent += delay;
            unheard += delay;
            match step {
                Step::Reply { agent_up, incarnation } => {
                    health.handle_reply(NODE, Heard { at: now, agent_up, incarnation });
                    (silent, unheard) = (Duration::ZERO, Duration::ZERO);
                    last_reply = now;
                }
                Step::Evidence { lease_over } => {
                    health.handle_evidence(NODE, now, Evidence::Answered { lease_over });
                    unheard = if lease_over { silent } else { Duration::ZERO };
                }
                Step::Round { excused } => {
                    let since = now - last_round.max(last_reply);
                    let excused = if excused { since } else { Duration::ZERO };
                    silent -= excused;
                    unheard = unheard.saturating_sub(excused);
                    health.handle_round(NODE, now, excused);
                    last_round = now;
                }
            }
            state = model(state, step, unheard);
            prop_assert_eq!(health.state(NODE), state);
        }
    }

    #[test]
    fn a_node_is_never_unreachable_for_silence_while_its_last_reply_is_younger_than_the_timeout(
        steps in steps(),
    ) {
        let mut health = Health::new(HealthSettings {
            timeout: TIMEOUT,
            unavailable_timeout: Duration::ZERO,
            announce_after: Duration::from_secs(5),
        });
        let mut now = Instant::now();
        health.begin(now, NODE, true, None);
        health.handle_reply(NODE, Heard { at: now, agent_up: true, incarnation: 1 });
        let mut last_reply = now;
        for (delay, step) in steps {
            now += Duration::from_millis(delay);
            let before = health.state(NODE);
            match step {
                Step::Reply { agent_up, incarnation } => {
                    health.handle_reply(NODE, Heard { at: now, agent_up, incarnation });
                    last_reply = now;
                }
                Step::Round { .. } => health.handle_round(NODE, now, Duration::ZERO),
                Step::Evidence { lease_over } => {
                    health.handle_evidence(NODE, now, Evidence::Answered { lease_over });
                }
            }
            if now - last_reply < TIMEOUT && before != Unreachable {
                prop_assert_ne!(health.state(NODE), Unreachable);
            }
        }
    }
}
