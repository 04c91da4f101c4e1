//! One node and a clock that the test moves.

use std::time::{Duration, Instant};

use controller::health::{
    Health, HealthSettings, Heard, NodeIndex, Output, Reason, Recorded, State,
};

pub(crate) const NODE: NodeIndex = NodeIndex(0);
pub(crate) const INCARNATION: u64 = 7;

pub(crate) const SETTINGS: HealthSettings = HealthSettings {
    timeout: Duration::from_secs(60),
    unavailable_timeout: Duration::ZERO,
    announce_after: Duration::from_secs(5),
};

pub(crate) fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

pub(crate) struct World {
    pub(crate) health: Health,
    pub(crate) now: Instant,
}

impl World {
    /// Nothing is monitored yet.
    pub(crate) fn empty(settings: HealthSettings) -> Self {
        Self {
            health: Health::new(settings),
            now: Instant::now() + seconds(1_000_000),
        }
    }

    /// Monitoring of the node has just begun.
    pub(crate) fn with(settings: HealthSettings) -> Self {
        let mut world = Self::empty(settings);
        world.health.begin(world.now, NODE, true, None);
        world
    }

    /// Monitoring of the node has just begun, from a recorded state of the usual incarnation.
    pub(crate) fn restored(state: State) -> Self {
        let mut world = Self::empty(SETTINGS);
        world
            .health
            .begin(world.now, NODE, true, Some(recorded(state)));
        world
    }

    /// The node has just got into `state`, the way that nodes do.
    pub(crate) fn in_state(state: State) -> Self {
        let mut world = Self::with(SETTINGS);
        match state {
            State::Unknown => {}
            State::Available => world.reply(true),
            State::Unavailable => {
                world.reply(true);
                world.reply(false);
            }
            State::Unreachable => {
                world.pass(seconds(61));
                world.no_reply();
            }
        }
        assert_eq!(world.state(), state);
        world.outputs();
        world
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    pub(crate) fn reply(&mut self, agent_up: bool) {
        self.reply_as(agent_up, INCARNATION);
    }

    pub(crate) fn reply_as(&mut self, agent_up: bool, incarnation: u64) {
        self.health.handle_reply(
            NODE,
            Heard {
                at: self.now,
                agent_up,
                incarnation,
            },
        );
    }

    /// The next round begins, and nothing has been heard.
    pub(crate) fn no_reply(&mut self) {
        self.excused_round(Duration::ZERO);
    }

    pub(crate) fn excused_round(&mut self, excused: Duration) {
        self.health.handle_round(NODE, self.now, excused);
    }

    pub(crate) fn state(&self) -> State {
        self.health.state(NODE)
    }

    pub(crate) fn outputs(&mut self) -> Vec<Output> {
        std::iter::from_fn(|| self.health.poll_output()).collect()
    }
}

pub(crate) fn recorded(state: State) -> Recorded {
    Recorded {
        state,
        reason: Reason::AgentSilent,
        age: seconds(3600),
        incarnation: Some(INCARNATION),
    }
}
