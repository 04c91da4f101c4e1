//! A hundred thousand nodes on a simulated clock.

use std::time::{Duration, Instant};

use controller::health::{Health, HealthSettings, Heard, NodeIndex, Output, State};

const NODES: u32 = 100_000;
const PERIOD: Duration = Duration::from_millis(200);
const TIMEOUT: Duration = Duration::from_secs(1);
const ROUNDS: u32 = 30;

/// What happens to a node, by its number.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Healthy,
    /// One probe in four is lost.
    Lossy,
    /// The agent dies in round 10.
    AgentDies,
    /// The link is cut just after round 10.
    Cut,
    /// The link is cut just after round 10 and back before round 20.
    Healed,
}

impl Fate {
    fn of(node: u32) -> Self {
        match node % 10 {
            0 => Self::AgentDies,
            1 => Self::Cut,
            2 => Self::Healed,
            3..=5 => Self::Lossy,
            _ => Self::Healthy,
        }
    }

    /// What the reply to the probe of `round` says of the agent, if there is one.
    fn reply(self, node: u32, round: u32) -> Option<bool> {
        match self {
            Self::Healthy => Some(true),
            Self::Lossy => (!(node / 10 + round).is_multiple_of(4)).then_some(true),
            Self::AgentDies => Some(round < 10),
            Self::Cut => (round <= 10).then_some(true),
            Self::Healed => (round <= 10 || round >= 20).then_some(true),
        }
    }

    fn expected(self) -> &'static [State] {
        match self {
            Self::Healthy | Self::Lossy => &[State::Available],
            Self::AgentDies => &[State::Available, State::Unavailable],
            Self::Cut => &[State::Available, State::Unreachable],
            Self::Healed => &[State::Available, State::Unreachable, State::Available],
        }
    }
}

#[test]
fn a_hundred_thousand_nodes_each_get_their_own_history_and_no_other() {
    let settings = HealthSettings {
        timeout: TIMEOUT,
        unavailable_timeout: Duration::ZERO,
        announce_after: Duration::from_secs(5),
    };
    let mut health = Health::new(settings);
    let start = Instant::now();
    let phase = |node: u32| PERIOD * node / NODES;
    for node in 0..NODES {
        health.begin(start, NodeIndex(node), true, None);
    }
    let mut histories = vec![Vec::new(); NODES as usize];
    for round in 0..ROUNDS {
        for node in 0..NODES {
            let due = start + PERIOD * round + phase(node);
            health.handle_round(NodeIndex(node), due, Duration::ZERO);
            if let Some(agent_up) = Fate::of(node).reply(node, round) {
                let at = due + Duration::from_micros(50);
                health.handle_reply(
                    NodeIndex(node),
                    Heard {
                        at,
                        agent_up,
                        incarnation: 1,
                    },
                );
            }
            while let Some(output) = health.poll_output() {
                if let Output::Changed { node, at, to, .. } = output {
                    histories[node.0 as usize].push((at, to.state));
                }
            }
        }
    }
    for node in 0..NODES {
        let fate = Fate::of(node);
        let history = &histories[node as usize];
        let states: Vec<_> = history.iter().map(|(_, state)| *state).collect();
        assert_eq!(states, fate.expected(), "node {node}, {fate:?}");
        if matches!(fate, Fate::Cut | Fate::Healed) {
            let last_reply = start + PERIOD * 10 + phase(node) + Duration::from_micros(50);
            let took = history[1].0 - last_reply;
            assert!(
                took > TIMEOUT && took <= TIMEOUT + PERIOD,
                "node {node}: {took:?}"
            );
        }
    }
}
