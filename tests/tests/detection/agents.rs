//! Agents are killed.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use controller::api::State;

use crate::figures::{Took, assert_within};
use crate::scene::{Mode, PERIOD, Scene, VICTIMS};
use crate::watch::{Seen, Watch};

const ROUNDS: u32 = 10;
/// The agent's defaults.
const BEAT_PERIOD: Duration = Duration::from_millis(100);
const BEAT_TIMEOUT: Duration = Duration::from_millis(500);

/// The time of a kill: between two moments.
struct Kill {
    begun: Instant,
    done: Instant,
}

impl Kill {
    fn make(scene: &mut Scene, index: u8) -> Self {
        let begun = Instant::now();
        scene.kill_agent(index);
        Self {
            begun,
            done: Instant::now(),
        }
    }

    fn took(&self, seen: &Seen) -> Took {
        // A node that is probed in time is heard once a period.
        let asked_late = seen.silence().saturating_sub(PERIOD);
        Took {
            time: seen.at - self.begun,
            late: (self.done - self.begun) + asked_late + seen.lag() + seen.reading,
            early: Duration::ZERO,
        }
    }
}

/// Kills each victim's agent in turn, and returns how long each detection took.
fn kill_all(scene: &mut Scene, watch: &Watch, pause: Duration) -> Vec<Took> {
    let mut kills: BTreeMap<String, Kill> = BTreeMap::new();
    for index in VICTIMS {
        // Not waiting for anything: kills are to fall into all phases of beats and probing.
        thread::sleep(pause);
        let kill = Kill::make(scene, index);
        kills.insert(scene.cluster.node(index).name(), kill);
    }
    let detection = |_| {
        let seen = watch.next();
        let transition = &seen.transition;
        assert_eq!(
            (transition.from, transition.to),
            (State::Available, State::Unavailable)
        );
        kills.remove(&transition.node).unwrap().took(&seen)
    };
    VICTIMS.map(detection).collect()
}

fn fifty_kills(purpose: &str, mode: Mode) {
    let mut scene = Scene::new(purpose, mode, "");
    let watch = Watch::start(scene.cluster.node(1));
    let mut took = Vec::new();
    for round in 0..ROUNDS {
        took.extend(kill_all(&mut scene, &watch, BEAT_PERIOD * round / ROUNDS));
        scene.start_victims();
        for _ in VICTIMS {
            let transition = watch.next().transition;
            assert_eq!(
                (transition.from, transition.to),
                (State::Unavailable, State::Available)
            );
        }
        watch.assert_quiet();
    }
    assert_eq!(took.len(), 50);
    let earliest = BEAT_TIMEOUT - BEAT_PERIOD * 2;
    assert_within(
        &format!("killed agent, {mode}"),
        &took,
        earliest,
        BEAT_TIMEOUT + PERIOD,
    );
    assert_eq!(scene.lost(), 0, "probes were lost");
}

#[test]
fn a_killed_agent_is_detected_in_time_without_a_lost_probe_under_generic_xdp() {
    fifty_kills(
        "killgen",
        Mode {
            attach: "generic",
            mtu: 1500,
        },
    );
}

#[test]
fn a_killed_agent_is_detected_in_time_without_a_lost_probe_under_native_xdp() {
    fifty_kills(
        "killnat",
        Mode {
            attach: "native",
            mtu: 1500,
        },
    );
}

#[test]
fn a_killed_agent_is_detected_in_time_without_a_lost_probe_under_tcx() {
    fifty_kills(
        "killtcx",
        Mode {
            attach: "tcx",
            mtu: 1500,
        },
    );
}

#[test]
fn a_killed_agent_is_detected_in_time_without_a_lost_probe_with_large_frames() {
    fifty_kills(
        "killbig",
        Mode {
            attach: "native",
            mtu: 9000,
        },
    );
}
