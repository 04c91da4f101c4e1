//! Links are cut.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use controller::api::{Reason, State};
use pulsepath_tests::LinkState;

use crate::figures::{Took, assert_within};
use crate::scene::{Mode, PERIOD, Scene, TIMEOUT, VICTIMS};
use crate::switch::Switch;
use crate::watch::{Seen, Watch};

const ROUNDS: u32 = 10;

/// The time of a cut: between two moments.
struct Cut {
    begun: Instant,
    begun_wall: SystemTime,
    done: Instant,
}

impl Cut {
    fn make(scene: &Scene, switch: &mut Switch, index: u8) -> Self {
        let (begun, begun_wall) = (Instant::now(), SystemTime::now());
        switch.set(&scene.cluster, index, LinkState::Down);
        Self {
            begun,
            begun_wall,
            done: Instant::now(),
        }
    }

    fn took(&self, seen: &Seen) -> Took {
        let last_reply = seen.transition.last_reply.unwrap().0;
        let unanswered = self
            .begun_wall
            .duration_since(last_reply)
            .unwrap_or_default();
        Took {
            time: seen.at - self.begun,
            late: (self.done - self.begun) + seen.not_counted() + seen.reading,
            // A node that is probed in time was heard within a period before the cut.
            early: unanswered.saturating_sub(PERIOD),
        }
    }
}

/// Cuts each victim's link in turn, and returns how long each detection took.
fn cut_all(scene: &Scene, switch: &mut Switch, watch: &Watch, pause: Duration) -> Vec<Took> {
    let mut cuts: BTreeMap<String, Cut> = BTreeMap::new();
    for index in VICTIMS {
        // Not waiting for anything: cuts are to fall into all phases of the probing.
        thread::sleep(pause);
        let cut = Cut::make(scene, switch, index);
        cuts.insert(scene.cluster.node(index).name(), cut);
    }
    let detection = |_| {
        let seen = watch.next();
        let transition = &seen.transition;
        assert_eq!(
            (transition.from, transition.to),
            (State::Available, State::Unreachable)
        );
        assert_eq!(transition.reason, Reason::NoReply);
        let silence = seen.silence();
        assert!(
            silence > TIMEOUT && silence <= TIMEOUT + PERIOD,
            "{transition:?}"
        );
        cuts.remove(&transition.node).unwrap().took(&seen)
    };
    VICTIMS.map(detection).collect()
}

fn mend_all(scene: &Scene, switch: &mut Switch, watch: &Watch) {
    for index in VICTIMS {
        switch.set(&scene.cluster, index, LinkState::Up);
    }
    for _ in VICTIMS {
        let transition = watch.next().transition;
        assert_eq!(
            (transition.from, transition.to),
            (State::Unreachable, State::Available)
        );
    }
}

fn fifty_cuts(purpose: &str, mode: Mode) {
    // Links are cut here; that a busy machine may keep an agent from beating is another matter.
    let scene = Scene::new(purpose, mode, "beat.timeout = '10s'");
    let watch = Watch::start(scene.cluster.node(1));
    let mut switch = Switch::new(&scene.cluster);
    let mut took = Vec::new();
    for round in 0..ROUNDS {
        let pause = PERIOD * round / ROUNDS + PERIOD / 4;
        took.extend(cut_all(&scene, &mut switch, &watch, pause));
        mend_all(&scene, &mut switch, &watch);
        watch.assert_quiet();
    }
    assert_eq!(took.len(), 50);
    assert_within(
        &format!("cut link, {mode}"),
        &took,
        TIMEOUT,
        TIMEOUT + PERIOD,
    );
}

#[test]
fn a_cut_link_is_detected_in_time_under_generic_xdp() {
    fifty_cuts(
        "cutgen",
        Mode {
            attach: "generic",
            mtu: 1500,
        },
    );
}

#[test]
fn a_cut_link_is_detected_in_time_under_native_xdp() {
    fifty_cuts(
        "cutnat",
        Mode {
            attach: "native",
            mtu: 1500,
        },
    );
}

#[test]
fn a_cut_link_is_detected_in_time_under_tcx() {
    fifty_cuts(
        "cuttcx",
        Mode {
            attach: "tcx",
            mtu: 1500,
        },
    );
}

#[test]
fn a_cut_link_is_detected_in_time_with_large_frames() {
    fifty_cuts(
        "cutbig",
        Mode {
            attach: "native",
            mtu: 9000,
        },
    );
}
