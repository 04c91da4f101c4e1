//! What happens, in chapters, each with its expectation.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
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
const SLACK: Duration = Duration::from_millis(50);
/// What rounding and the way of a packet may take off a time.
const ROUNDING: Duration = Duration::from_millis(2);
/// How long a new process may take to do its work.
const START: Duration = Duration::from_millis(1500);
/// How long a link that is up again may take to carry packets.
const LINK_UP: Duration = Duration::from_millis(500);
/// How long the story waits for anything before it gives up.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time to see a state before the next thing happens.
const BREATH: Duration = Duration::from_millis(700);

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
    /// Starts the daemons and the demo's prober, and waits until every node is AVAILABLE.
    pub(crate) fn begin(
        scene: &'a mut Scene,
        clock: Clock,
        interrupted: &'a AtomicBool,
    ) -> Result<Self> {
        let console = Console::new(clock);
        console.chapter("Three nodes on a bridge, an agent on each");
        for index in 1..=NODES {
            scene.start_agent(index)?;
        }
        for index in 1..=NODES {
            scene.await_agent(index)?;
        }
        console.tell("agents are ready; the demo begins to probe every node at 1 kHz");
        let probing = Probing::start(scene.cluster(), clock)?;
        console.chapter("A controller on n1 itself: probes every 200 ms, times out after 1 s");
        let started = clock.now();
        scene.start_controller()?;
        let watcher = Watcher::start(scene.controller_node(), clock, console)?;
        let marks = vec![Mark {
            at: started,
            label: "controller starts".into(),
            lane: lane(CONTROLLER),
        }];
        let report = Report::default();
        let mut story = Self {
            scene,
            clock,
            console,
            interrupted,
            probing,
            watcher,
            report,
            marks,
        };
        story.all_available(started)?;
        Ok(story)
    }

    fn all_available(&mut self, started: Duration) -> Result<()> {
        let mut last = Duration::ZERO;
        for index in 1..=NODES {
            last = last.max(self.await_state(0, index, State::Available)?.at);
        }
        let what = "all nodes AVAILABLE, the controller's own, too, after";
        self.report.check_time(
            what,
            Duration::ZERO..=START + PERIOD,
            last.saturating_sub(started),
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
        self.report.check(
            "n2's incarnation after all that",
            &incarnation,
            &now,
            now == incarnation,
        );
        self.cut_link()?;
        self.mend_link()?;
        let all: Probes = [CONTROLLER, AGENT]
            .map(|index| self.probing.probes(index))
            .into_iter()
            .sum();
        self.report
            .check_none_lost("probes of n1 and n2 lost in the whole story", all);
        Ok(())
    }

    fn kill_agent(&mut self) -> Result<()> {
        self.console
            .chapter("The agent of n2 is killed (kill -9): its kernel goes on answering");
        let (seen, before) = (self.watcher.mark(), self.probing.probes(AGENT));
        let killed = self.mark("kill -9 agent", AGENT);
        self.scene.take_agent(AGENT)?.kill()?;
        let unavailable = self.await_state(seen, AGENT, State::Unavailable)?;
        self.report.check_time(
            "agent killed: n2 UNAVAILABLE after",
            BEAT_TIMEOUT - BEAT_PERIOD - SLACK..=BEAT_TIMEOUT + PERIOD + SLACK,
            unavailable.at.saturating_sub(killed),
        );
        self.pause(BREATH)?;
        self.check_none_lost("probes of n2 lost meanwhile", before)
    }

    fn start_agent(&mut self) -> Result<()> {
        self.console
            .chapter("The agent of n2 starts again and adopts what is in the kernel");
        let (seen, before) = (self.watcher.mark(), self.probing.probes(AGENT));
        let started = self.mark("start agent", AGENT);
        self.scene.start_agent(AGENT)?;
        let available = self.await_state(seen, AGENT, State::Available)?;
        let took = available.at.saturating_sub(started);
        self.report.check_time(
            "agent started: n2 AVAILABLE after",
            Duration::ZERO..=START + PERIOD,
            took,
        );
        self.scene.await_agent(AGENT)?;
        self.pause(BREATH)?;
        self.check_none_lost("probes of n2 lost meanwhile", before)
    }

    fn upgrade_agent(&mut self) -> Result<()> {
        self.console
            .chapter("The agent of n2 is upgraded: stopped, started, program replaced");
        let (seen, before) = (self.watcher.mark(), self.probing.probes(AGENT));
        let old = self.scene.attachments(AGENT)?;
        self.mark("upgrade agent", AGENT);
        self.scene.take_agent(AGENT)?.terminate()?;
        self.scene.start_agent(AGENT)?;
        self.scene.await_agent(AGENT)?;
        let new = self.scene.attachments(AGENT)?;
        for (name, now) in &new {
            self.console.tell(&format!(
                "{name}: link {}, program {}",
                now.link, now.program
            ));
        }
        let same = |same: fn(&_, &_) -> bool| {
            old.len() == new.len()
                && old
                    .iter()
                    .zip(&new)
                    .all(|(old, new)| old.0 == new.0 && same(old.1, new.1))
        };
        let replaced = same(|old: &crate::scene::Attachment, new| {
            old.link == new.link && old.program != new.program
        });
        let words = if replaced { "yes" } else { "no" };
        self.report.check(
            "upgrade: new program behind the same link",
            "yes",
            words,
            replaced,
        );
        self.pause(TIMEOUT)?;
        let states = self.watcher.news(seen, &["n2"]);
        let words = describe(&states);
        let never_gone = states.iter().all(|seen| seen.to != State::Unreachable);
        self.report.check(
            "upgrade: n2's state changes",
            "no UNREACHABLE",
            &words,
            never_gone,
        );
        self.check_none_lost("probes of n2 lost meanwhile", before)
    }

    fn cut_link(&mut self) -> Result<()> {
        self.console.chapter("The link of n3 is cut");
        let seen = self.watcher.mark();
        self.mark("cut link", LINK);
        self.scene.cluster().set_link(LINK, LinkState::Down)?;
        let unreachable = self.await_state(seen, LINK, State::Unreachable)?;
        let Some(last) = self.probing.last_answer(LINK) else {
            bail!("n3 never answered the demo's prober");
        };
        self.report.check_time(
            "link cut: n3 UNREACHABLE after",
            TIMEOUT - ROUNDING..=TIMEOUT + PERIOD + SLACK,
            unreachable.at.saturating_sub(last),
        );
        self.pause(BREATH)?;
        let others = self.watcher.news(seen, &["n1", "n2"]);
        let words = describe(&others);
        self.report.check(
            "state changes of n1 and n2 meanwhile",
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
        self.report.check_time(
            "link mended: n3 AVAILABLE after",
            Duration::ZERO..=LINK_UP + PERIOD,
            available.at.saturating_sub(mended),
        );
        self.pause(TIMEOUT)
    }

    /// Lets the last probes' reply window pass, then checks that none of n2's was lost.
    fn check_none_lost(&mut self, what: &str, before: Probes) -> Result<()> {
        self.pause(REPLY_WINDOW + SLACK)?;
        let probes = self.probing.probes(AGENT).since(before);
        self.console.tell(&format!(
            "{} probes of n2, {} lost",
            probes.total(),
            probes.lost
        ));
        self.report.check_none_lost(what, probes);
        Ok(())
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
