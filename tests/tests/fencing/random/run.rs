//! Schedules on real nodes.

use std::time::{Duration, Instant};

use controller::api::State;
use pulsepath_tests::egress::{Claim, EGRESS_IP, Recorder, Scene, Setup};
use pulsepath_tests::{LinkState, Signal};

use super::schedule::{CANDIDATES, CONTROLLER, Fault, Schedule, Stop};
use crate::provocation::Provocation;

/// Times that let everything happen within a schedule. On a busy machine nodes fall that are well:
/// that is one more fault.
const SETTINGS: &str = "fencing = 'strict'\nperiod = '50ms'\ntimeout = '400ms'\nlease = '1s'\n\
                        failover.damping.count = 0";
/// What the controller writes when an egress IP has a new owner, or none.
const MOVED: &str = "egress IP assigned";

/// Nodes on which one schedule after the other is run.
pub(super) struct Site {
    _provocation: Provocation,
    scene: Scene,
}

impl Site {
    pub(super) fn start(purpose: &str) -> Self {
        let setup = Setup {
            candidates: CANDIDATES.to_vec(),
            controller: CONTROLLER,
            settings: SETTINGS.to_owned(),
            ..Setup::default()
        };
        let scene = Scene::start(purpose, setup).unwrap();
        let outside = scene.external().outside();
        Self {
            _provocation: Provocation::start(outside, EGRESS_IP),
            scene,
        }
    }

    /// Runs a schedule, and waits until all is well again.
    pub(super) fn run(&mut self, schedule: &Schedule) {
        let moved_before = self.moves();
        let recorder = Recorder::start(self.scene.external(), EGRESS_IP.into()).unwrap();
        self.suffer(schedule);
        self.recover(schedule);
        let owners = owners(&recorder.finish().unwrap());
        let moves = self.moves() - moved_before;
        println!(
            "seed {}: {moves} moves, seen from {owners:?} in turn; {:?}",
            schedule.seed, schedule.steps
        );
        // Two owners take turns without any move.
        let turns = owners.len().saturating_sub(1);
        assert!(
            turns <= moves + schedule.controllers_killed(),
            "seed {}: two owners: {owners:?} with {moves} moves\n{schedule:#?}\n{}",
            schedule.seed,
            self.scene.logs()
        );
    }

    fn suffer(&mut self, schedule: &Schedule) {
        let begins = schedule.steps.iter().map(|it| (it.begins, true, it.fault));
        let ends = schedule.steps.iter().map(|it| (it.ends, false, it.fault));
        let mut changes: Vec<_> = begins.chain(ends).collect();
        changes.sort_by_key(|(at, ..)| *at);
        let start = Instant::now();
        for (at, begins, fault) in changes {
            std::thread::sleep(at.saturating_sub(start.elapsed()));
            match begins {
                true => self.begin(fault),
                false => self.end(fault),
            }
        }
    }

    fn begin(&mut self, fault: Fault) {
        let cluster = self.scene.cluster();
        match fault {
            Fault::Cut(node) => self.scene.cut(node),
            Fault::CutManagement(node) => cluster.set_link(node, LinkState::Down),
            Fault::OneWay(node, direction) => cluster.drop_packets(node, direction),
            Fault::Agent(node, Stop::Killed) => self.scene.take_agent(node).map(drop),
            Fault::Agent(node, Stop::Frozen) => self.scene.signal_agent(node, Signal::SIGSTOP),
            Fault::Controller(Stop::Killed) => self.scene.take_controller().map(drop),
            Fault::Controller(Stop::Frozen) => self.scene.signal_controller(Signal::SIGSTOP),
            Fault::Drain(node) => self.scene.drain(node),
        }
        .unwrap();
    }

    fn end(&mut self, fault: Fault) {
        let cluster = self.scene.cluster();
        match fault {
            Fault::Cut(node) => self.scene.set_links(node, LinkState::Up),
            Fault::CutManagement(node) => cluster.set_link(node, LinkState::Up),
            Fault::OneWay(node, _) => cluster.pass_packets(node),
            Fault::Agent(node, Stop::Killed) => self.scene.spawn_agent(node),
            Fault::Agent(node, Stop::Frozen) => self.scene.signal_agent(node, Signal::SIGCONT),
            Fault::Controller(Stop::Killed) => self.scene.start_controller(),
            Fault::Controller(Stop::Frozen) => self.scene.signal_controller(Signal::SIGCONT),
            Fault::Drain(node) => self.scene.undrain(node),
        }
        .unwrap();
    }

    /// All nodes are AVAILABLE, and the egress IP is announced, with everything mended.
    fn recover(&self, schedule: &Schedule) {
        let all_well = || {
            let mut indices = self.scene.indices();
            indices.try_for_each(|node| self.scene.await_state(node, State::Available))?;
            self.scene.await_announced()
        };
        if let Err(error) = all_well() {
            panic!(
                "seed {}: {error:#}\n{schedule:#?}\n{}",
                schedule.seed,
                self.scene.logs()
            );
        }
        // Whatever an old owner had queued leaves.
        std::thread::sleep(Duration::from_millis(300));
    }

    /// How often the egress IP has got a new owner, or lost one.
    fn moves(&self) -> usize {
        let node = self.scene.controller_node().name();
        let log = self
            .scene
            .cluster()
            .files()
            .join(format!("{node}-pulsepath-controller.log"));
        let log = std::fs::read_to_string(log).unwrap_or_default();
        log.matches(MOVED).count()
    }
}

/// Who was seen, in turn.
fn owners(claims: &[Claim]) -> Vec<u8> {
    let mut owners: Vec<u8> = claims.iter().map(|claim| claim.node).collect();
    owners.dedup();
    owners
}
