//! What happens, in chapters, each with its expectation.

use std::ops::RangeBounds;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use controller::api::State;
use pulsepath_tests::LinkState;

use crate::clock::{Clock, seconds};
use crate::console::Console;
use crate::probing::{Probing, REPLY_WINDOW};
use crate::report::{Probes, Report};
use crate::scene::{AGENT, CONTROLLER, LINK, NODES, Scene};
use crate::timeline::{Lane, Mark, Timeline};
use crate::watcher::{Seen, Watcher, nodes};

/// The controller's default profile.
const PERIOD: Duration = Duration::from_millis(200);
const TIMEOUT: Duration = Duration::from_secs(1);
/// The agents' defaults.
const BEAT_PERIOD: Duration = Duration::from_millis(100);
const BEAT_TIMEOUT: Duration = Duration::from_millis(500);

/// What a busy machine may add to a time.
const SLACK: Duration = Duration::from_millis(100);
/// What rounding and the way of a packet may take off a time.
const ROUNDING: Duration = Duration::from_millis(2);
/// How long a new process may take to do its work.
const START: Duration = Duration::from_secs(3);
/// How long a link that is up again may take to carry packets.
const LINK_UP: Duration = Duration::from_millis(500);
/// How long the story waits for anything before it gives up.
const PATIENCE: Duration = Duration::from_secs(10);
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
    report: Report,
    marks: Vec<Mark>,
}

impl<'a> Story<'a> {
    /// Starts the daemons and the demo's prober, and waits until every node is AVAILABLE. The
    /// demo's time begins when the agents are ready.
    pub(crate) fn begin(scene: &'a mut Scene, interrupted: &'a AtomicBool) -> Result<Self> {
        for index in 1..=NODES {
            scene.start_agent(index)?;
        }
        for index in 1..=NODES {
            scene.await_agent(index)?;
        }
        let clock = Clock::start();
        let console = Console::new(clock);
        console.chapter("Three nodes on a bridge, an agent on each, a controller on n1");
        console.tell("the agents are ready; the demo begins to probe every node at 1 kHz");
        let probing = Probing::start(scene.cluster(), clock)?;
        let started = clock.now();
        console.tell("the controller starts: it probes every 200 ms and times out after 1 s");
        scene.start_controller()?;
        let mut story = Self {
            watcher: Watcher::start(scene.controller_node(), clock, console)?,
            scene,
            clock,
            console,
            interrupted,
            probing,
            report: Report::default(),
            marks: vec![Mark {
                at: started,
                label: "start controller".into(),
                lane: lane(CONTROLLER),
            }],
        };
        story.all_available(started)?;
        Ok(story)
    }

    fn all_available(&mut self, started: Duration) -> Result<()> {
        let mut last = Duration::ZERO;
        for index in 1..=NODES {
            last = last.max(self.await_state(0, index, State::Available)?.at);
        }
        let took = last.saturating_sub(started);
        self.expect_time(
            "all AVAILABLE, the controller's own node, too",
            ..=START + PERIOD,
            took,
        );
        self.pause(BREATH)
    }

    /// The chapters after the beginning.
    pub(crate) fn go_on(&mut self) -> Result<()> {
        let incarnation = self.incarnation(AGENT)?;
        self.kill_agent()?;
        self.start_agent()?;
        self.upgrade_agent()?;
        let now = self.incarnation(AGENT)?;
        self.expect(
            "n2's incarnation after all that",
            &incarnation,
            &now,
            now == incarnation,
        );
        self.cut_link()?;
        self.mend_link()?;
        let unharmed = [CONTROLLER, AGENT].map(|index| self.probing.probes(index));
        let unharmed = unharmed.into_iter().sum();
        self.expect_none_lost("probes of n1 and n2 lost in the whole story", unharmed);
        Ok(())
    }

    fn kill_agent(&mut self) -> Result<()> {
        self.console
            .chapter("The agent of n2 is killed (kill -9): its kernel goes on answering");
        let (seen, before) = (self.watcher.mark(), self.probing.probes(AGENT));
        let killed = self.mark("kill -9 agent", AGENT);
        self.scene.take_agent(AGENT)?.kill()?;
        let unavailable = self.await_state(seen, AGENT, State::Unavailable)?;
        self.expect_time(
            "agent killed: n2 UNAVAILABLE after",
            BEAT_TIMEOUT - BEAT_PERIOD - SLACK..=BEAT_TIMEOUT + PERIOD + SLACK,
            unavailable.at.saturating_sub(killed),
        );
        self.pause(BREATH)?;
        self.expect_none_lost_since("agent killed: probes lost", before)
    }

    fn start_agent(&mut self) -> Result<()> {
        self.console
            .chapter("The agent of n2 starts again and adopts what is in the kernel");
        let (seen, before) = (self.watcher.mark(), self.probing.probes(AGENT));
        let started = self.mark("start agent", AGENT);
        self.scene.start_agent(AGENT)?;
        let available = self.await_state(seen, AGENT, State::Available)?;
        let took = available.at.saturating_sub(started);
        self.expect_time("agent started: n2 AVAILABLE after", ..=START + PERIOD, took);
        self.scene.await_agent(AGENT)?;
        self.pause(BREATH)?;
        self.expect_none_lost_since("agent started: probes lost", before)
    }

    fn upgrade_agent(&mut self) -> Result<()> {
        self.console
            .chapter("The agent of n2 is upgraded: stopped, started, programs replaced");
        let (seen, before) = (self.watcher.mark(), self.probing.probes(AGENT));
        let old = self.scene.attachments(AGENT)?;
        self.mark("upgrade agent", AGENT);
        self.scene.take_agent(AGENT)?.terminate()?;
        self.scene.start_agent(AGENT)?;
        self.scene.await_agent(AGENT)?;
        let new = self.scene.attachments(AGENT)?;
        let replaced =
            old.len() == new.len() && old.iter().zip(&new).all(|(old, new)| new.replaces(old));
        for (old, new) in old.iter().zip(&new) {
            let (pin, link) = (&new.pin, new.link);
            let programs = format!("program {} -> {}", old.program, new.program);
            self.console
                .tell(&format!("{pin}: link {link}, {programs}"));
        }
        let words = if replaced { "yes" } else { "no" };
        self.expect(
            "upgrade: new programs behind the same links",
            "yes",
            words,
            replaced,
        );
        self.pause(TIMEOUT)?;
        let states = self.watcher.news(seen, &["n2"]);
        let never_gone = states.iter().all(|seen| seen.to != State::Unreachable);
        let words = describe(&states);
        self.expect(
            "upgrade: state changes",
            "no UNREACHABLE",
            &words,
            never_gone,
        );
        self.expect_none_lost_since("upgrade: probes lost", before)
    }

    fn cut_link(&mut self) -> Result<()> {
        self.console.chapter("The link of n3 is cut");
        let seen = self.watcher.mark();
        let begun = self.mark("cut link", LINK);
        self.scene.cluster().set_link(LINK, LinkState::Down)?;
        let unreachable = self.await_state(seen, LINK, State::Unreachable)?;
        // It was cut after the last answer that came through, and after the demo set about it.
        let last = self
            .probing
            .last_answer(LINK)
            .context("n3 never answered")?;
        let cut = last.max(begun);
        self.expect_time(
            "link cut: n3 UNREACHABLE after",
            TIMEOUT - ROUNDING..=TIMEOUT + PERIOD + SLACK,
            unreachable.at.saturating_sub(cut),
        );
        self.pause(BREATH)?;
        let others = self.watcher.news(seen, &["n1", "n2"]);
        let words = describe(&others);
        self.expect(
            "link cut: state changes of n1 and n2",
            "none",
            &words,
            others.is_empty(),
        );
        Ok(())
    }

    fn mend_link(&mut self) -> Result<()> {
        self.console.chapter("The link of n3 is mended");
        let seen = self.watcher.mark();
        let mended = self.mark("mend link", LINK);
        self.scene.cluster().set_link(LINK, LinkState::Up)?;
        let available = self.await_state(seen, LINK, State::Available)?;
        let took = available.at.saturating_sub(mended);
        self.expect_time("link mended: n3 AVAILABLE after", ..=LINK_UP + PERIOD, took);
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

    /// Lets the last probes' reply window pass, then expects that none of n2's was lost.
    fn expect_none_lost_since(&mut self, what: &str, before: Probes) -> Result<()> {
        self.pause(REPLY_WINDOW + SLACK)?;
        self.expect_none_lost(what, self.probing.probes(AGENT).since(before));
        Ok(())
    }

    /// Tells what has just been added to the report.
    fn tell_last(&self) {
        if let Some((what, right)) = self.report.last() {
            self.console.result(&what, right);
        }
    }

    /// Notes that something is done to a node now.
    fn mark(&mut self, label: &str, index: u8) -> Duration {
        let at = self.clock.now();
        self.console.tell(&format!("{label} of n{index}"));
        self.marks.push(Mark {
            at,
            label: label.to_owned(),
            lane: lane(index),
        });
        at
    }

    fn incarnation(&self, index: u8) -> Result<String> {
        let name = self.scene.node(index).name();
        let list = nodes(self.scene.controller_node())?.nodes;
        list.into_iter()
            .find(|node| node.name == name)
            .and_then(|node| node.incarnation)
            .ok_or_else(|| anyhow!("the controller knows no incarnation of {name}"))
    }

    fn await_state(&mut self, mark: usize, index: u8, state: State) -> Result<Seen> {
        let name = self.scene.node(index).name();
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(seen) = self.watcher.find(mark, &name, state) {
                return Ok(seen);
            }
            self.pause(Duration::from_millis(5))?;
        }
        bail!("{name} did not become {state} within {}", seconds(PATIENCE))
    }

    /// Waits, unless the demo is interrupted or a daemon dies.
    fn pause(&mut self, time: Duration) -> Result<()> {
        let until = Instant::now() + time;
        loop {
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(Interrupted.into());
            }
            self.scene.check_alive()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(Duration::from_millis(20)));
        }
    }

    /// Ends the story: the table and the picture.
    pub(crate) fn end(self) -> (Report, Timeline) {
        let roles = ["agent, controller", "agent", "agent"];
        let lanes = (1..=NODES).zip(roles).map(|(index, role)| {
            let name = self.scene.node(index).name();
            Lane {
                role: role.into(),
                states: self.watcher.history(&name),
                answers: self.probing.answers(index),
                name,
            }
        });
        let timeline = Timeline {
            title: "Pulsepath demo: what the controller saw, and what the kernels answered".into(),
            subtitle: "Three nodes on a bridge; the controller probes every 200 ms and times out \
                       after 1 s. Measured on this machine."
                .into(),
            lanes: lanes.collect(),
            marks: self.marks,
            end: self.clock.now(),
        };
        (self.report, timeline)
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
