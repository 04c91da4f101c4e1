//! Schedules on real nodes.

use std::time::{Duration, Instant};

use pulsepath_tests::egress::{Claim, EGRESS_IP, Recorder, Scene, Setup};
use pulsepath_tests::fencing::{Fencing, Provocation, Trouble};

use super::schedule::{CANDIDATES, CONTROLLER, Schedule};

/// Times that let everything happen within a schedule. On a busy machine nodes fall that are well:
/// that is one more fault.
const SETTINGS: &str = "period = '50ms'\ntimeout = '400ms'\nlease = '1s'\n\
                        failover.damping.count = 0";

/// Nodes on which one schedule after the other is run.
pub(super) struct Site {
    _provocation: Provocation,
    trouble: Trouble,
}

impl Site {
    pub(super) fn start(purpose: &str, fencing: Fencing) -> Self {
        let setup = Setup {
            candidates: CANDIDATES.to_vec(),
            controller: CONTROLLER,
            settings: format!("fencing = '{fencing}'\n{SETTINGS}"),
            ..Setup::default()
        };
        let scene = Scene::start(purpose, setup).unwrap();
        let outside = scene.external().outside();
        Self {
            _provocation: Provocation::start(outside, EGRESS_IP.into()).unwrap(),
            trouble: Trouble::new(scene),
        }
    }

    /// Runs a schedule, and waits until all is well again.
    pub(super) fn run(&mut self, schedule: &Schedule) {
        let moved_before = self.trouble.scene.moves().unwrap();
        let recorder = Recorder::start(self.trouble.scene.external(), EGRESS_IP.into()).unwrap();
        self.suffer(schedule);
        self.recover(schedule);
        let owners = owners(&recorder.finish().unwrap());
        let moves = self.trouble.scene.moves().unwrap() - moved_before;
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
            self.trouble.scene.logs()
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
                true => self.trouble.begin(fault),
                false => self.trouble.end(fault),
            }
            .unwrap();
        }
    }

    /// All is well, with everything mended.
    fn recover(&mut self, schedule: &Schedule) {
        if let Err(error) = self.trouble.mend() {
            panic!(
                "seed {}: {error:#}\n{schedule:#?}\n{}",
                schedule.seed,
                self.trouble.scene.logs()
            );
        }
        // Whatever an old owner had queued leaves.
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// Who was seen, in turn.
fn owners(claims: &[Claim]) -> Vec<u8> {
    let mut owners: Vec<u8> = claims.iter().map(|claim| claim.node).collect();
    owners.dedup();
    owners
}
