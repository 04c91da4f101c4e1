//! What happens, in chapters, each with its expectation: `nodes` is about nodes, `egress` about the
//! egress IP that some of them own.

mod egress;
mod nodes;

use std::ops::RangeBounds;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use controller::api::State;
use pulsepath_tests::egress::Scene;

use crate::client::Client;
use crate::clock::Clock;
use crate::console::Console;
use crate::ownership::Ownership;
use crate::probing::Probing;
use crate::scene::{CONTROLLER, NODES};
use crate::timeline::{Band, Lane, Mark, Timeline};
use crate::watcher::{Seen, Watcher};
use pulsepath_tests::report::seconds;
use pulsepath_tests::report::{Probes, Report};

/// The controller's default profile.
const PERIOD: Duration = Duration::from_millis(200);
const TIMEOUT: Duration = Duration::from_secs(1);
/// What a busy machine may add to a time.
const SLACK: Duration = Duration::from_millis(100);
/// How long a new process may take to do its work.
const START: Duration = Duration::from_secs(3);
/// How long the story waits for anything before it gives up.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time between two looks.
const GLANCE: Duration = Duration::from_millis(5);
/// Time to see a state before the next thing happens.
const BREATH: Duration = Duration::from_secs(1);

/// The story was ended by a signal.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub(crate) struct Interrupted;

/// The story, and what has come of it so far.
pub(crate) struct Story<'a> {
    scene: &'a mut Scene,
    clock: Clock,
    console: Console,
    interrupted: &'a AtomicBool,
    probing: Probing,
    watcher: Watcher,
    ownership: Ownership,
    /// From when on there is a gateway.
    client: Option<Client>,
    report: Report,
    /// When the controller was started.
    started: Duration,
    marks: Vec<Mark>,
}

impl<'a> Story<'a> {
    /// Starts the daemons and the demo's prober. The demo's time begins when the agents are ready.
    pub(crate) fn begin(scene: &'a mut Scene, interrupted: &'a AtomicBool) -> Result<Self> {
        scene.start_agents()?;
        let clock = Clock::start();
        let console = Console::new(clock);
        console.chapter("Three nodes on a bridge, an agent on each, a controller on n1");
        console.tell("the agents are ready; the demo begins to probe every node at 1 kHz");
        let probing = Probing::start(scene.cluster(), clock)?;
        let started = clock.now();
        console.tell("the controller starts: it probes every 200 ms and times out after 1 s");
        scene.start_controller()?;
        Ok(Self {
            watcher: Watcher::start(scene.controller_node(), clock, console)?,
            ownership: Ownership::new(clock, console),
            client: None,
            scene,
            clock,
            console,
            interrupted,
            probing,
            report: Report::default(),
            started,
            marks: vec![Mark {
                at: started,
                label: "start controller".into(),
                lane: lane(CONTROLLER),
            }],
        })
    }

    /// The chapters after the beginning.
    pub(crate) fn go_on(&mut self) -> Result<()> {
        self.all_available()?;
        self.about_nodes()?;
        self.about_an_egress_ip()
    }

    fn all_available(&mut self) -> Result<()> {
        let mut last = Duration::ZERO;
        for index in 1..=NODES {
            last = last.max(self.await_state(0, index, State::Available)?.at);
        }
        let took = last.saturating_sub(self.started);
        self.expect_time(
            "all AVAILABLE, the controller's own node, too",
            ..=START + PERIOD,
            took,
        );
        self.pause(BREATH)
    }

    fn expect(&mut self, what: &str, expected: &str, measured: &str, right: bool) {
        self.report.check(what, expected, measured, right);
        self.tell_last();
    }

    fn expect_time(&mut self, what: &str, expected: impl RangeBounds<Duration>, time: Duration) {
        self.report.check_time(what, expected, time);
        self.tell_last();
    }

    fn expect_none_lost(&mut self, what: &str, probes: Probes) {
        self.report.check_none_lost(what, probes);
        self.tell_last();
    }

    /// Tells what has just been added to the report.
    fn tell_last(&self) {
        if let Some((what, right)) = self.report.last() {
            self.console.result(&what, right);
        }
    }

    /// Notes that something is done to a node now.
    fn mark(&mut self, label: &str, index: u8) -> Duration {
        self.console.tell(&format!("{label} of n{index}"));
        self.note(label, lane(index))
    }

    /// Puts a mark into the picture.
    fn note(&mut self, label: &str, lane: usize) -> Duration {
        let at = self.clock.now();
        self.marks.push(Mark {
            at,
            label: label.to_owned(),
            lane,
        });
        at
    }

    fn await_state(&mut self, mark: usize, index: u8, state: State) -> Result<Seen> {
        let name = self.scene.node(index).name();
        self.wait_for(&format!("{name} becomes {state}"), |story| {
            Ok(story.watcher.find(mark, &name, state))
        })
    }

    /// Waits until `look` finds something; `what` says what that is.
    fn wait_for<T>(
        &mut self,
        what: &str,
        mut look: impl FnMut(&mut Self) -> Result<Option<T>>,
    ) -> Result<T> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(found) = look(self)? {
                return Ok(found);
            }
            self.pause(GLANCE)?;
        }
        bail!("not within {}: {what}", seconds(PATIENCE))
    }

    /// Waits and watches, unless the demo is interrupted or a daemon dies.
    fn pause(&mut self, time: Duration) -> Result<()> {
        let until = Instant::now() + time;
        loop {
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(Interrupted.into());
            }
            self.scene.check_alive()?;
            self.observe()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(Duration::from_millis(20)));
        }
    }

    /// Tells what is new about the egress IP and about its client.
    pub(crate) fn observe(&mut self) -> Result<()> {
        self.ownership.look(self.scene)?;
        if let Some(client) = &mut self.client {
            client.tell_losses();
        }
        Ok(())
    }

    /// The nodes and the processes.
    pub(crate) fn scene(&self) -> &Scene {
        self.scene
    }

    /// What was expected and what was measured.
    pub(crate) fn report(&self) -> &Report {
        &self.report
    }

    /// The story so far as a picture.
    pub(crate) fn timeline(&self) -> Timeline {
        let roles = ["agent, controller", "agent, gateway", "agent, gateway"];
        let nodes = (1..=NODES).zip(roles);
        let mut lanes: Vec<_> = nodes.map(|(index, role)| self.lane(index, role)).collect();
        lanes.push(self.egress_lane());
        Timeline {
            title: "Pulsepath demo: what the controller saw, what the kernels answered, and who \
                    owned the egress IP"
                .into(),
            subtitle: "Three nodes on a bridge; the controller probes every 200 ms and times out \
                       after 1 s. Measured on this machine."
                .into(),
            lanes,
            marks: self.marks.clone(),
            end: self.clock.now(),
        }
    }

    fn lane(&self, index: u8, role: &str) -> Lane {
        let name = self.scene.node(index).name();
        let states = self.watcher.history(&name).into_iter();
        Lane {
            role: role.into(),
            bands: states.map(|(at, state)| (at, Band::State(state))).collect(),
            answers: self.probing.answers(index),
            name,
        }
    }
}

/// The lane of node `index`.
fn lane(index: u8) -> usize {
    usize::from(index) - 1
}

fn describe(seen: &[Seen]) -> String {
    if seen.is_empty() {
        return "none".into();
    }
    seen.iter()
        .map(|seen| seen.to.to_string())
        .collect::<Vec<_>>()
        .join(", ")
}
