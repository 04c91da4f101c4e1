//! One node and a clock that the test moves.

use std::time::{Duration, Instant};

use controller::health::{
    Evidence, Health, HealthSettings, Heard, NodeIndex, Output, Reason, Recorded, State,
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

    /// Others say that they heard the node so long ago.
    pub(crate) fn heard_by_others(&mut self, ago: Duration) {
        self.evidence(ago, false);
    }

    /// The same, and that its lease was over then.
    pub(crate) fn heard_without_lease(&mut self, ago: Duration) {
        self.evidence(ago, true);
    }

    fn evidence(&mut self, ago: Duration, lease_over: bool) {
        let evidence = Evidence::Answered { lease_over };
        self.health.handle_evidence(NODE, self.now - ago, evidence);
    }

    /// Others say that they received a packet from its tunnels so long ago.
    pub(crate) fn tunnel_packet(&mut self, ago: Duration) {
        let evidence = Evidence::TunnelPacket { lease: None };
        self.health.handle_evidence(NODE, self.now - ago, evidence);
    }

    pub(crate) fn reason(&self) -> Reason {
        self.health.node(NODE).expect("it is monitored").reason()
    }

    pub(crate) fn state(&self) -> State {
        self.health.state(NODE)
    }

    /// What followed, but for questions that others should be asked.
    pub(crate) fn outputs(&mut self) -> Vec<Output> {
        let outputs = std::iter::from_fn(|| self.health.poll_output());
        let is_doubt = |output: &Output| matches!(output, Output::Doubted { .. });
        outputs.filter(|output| !is_doubt(output)).collect()
    }

    /// For how long nobody had heard the node whenever others were to be asked.
    pub(crate) fn doubts(&mut self) -> Vec<Duration> {
        let outputs = std::iter::from_fn(|| self.health.poll_output());
        let unheard = |output| match output {
            Output::Doubted { unheard, .. } => Some(unheard),
            _ => None,
        };
        outputs.filter_map(unheard).collect()
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
