//! The mass-failure guard: when most nodes fall silent at once, the one who listens may be deaf.
//!
//! Nodes are declared UNREACHABLE one by one, spread over a period. So that the first of them is not
//! moved before the last is declared, nodes that are merely about to be count as lost, too. Nodes that
//! their witnesses miss as well say nothing of the controller, and do not count at all.

use std::time::{Duration, Instant};

/// When the controller suspects itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GuardSettings {
    /// Share of the nodes that may be lost at once, 0 to 1.
    pub max_unreachable: f64,
    /// What "at once" means, and how long the share must have been back to normal before moves go
    /// on: the time in which every node that can be heard has been.
    pub window: Duration,
    /// A node that has been silent for so long counts as lost, whatever its state.
    pub silence: Duration,
}

/// With fewer nodes than this a share says nothing.
const FEWEST: usize = 3;

/// What the guard is told of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// It is heard.
    Alive,
    /// It has been silent for so long that it is about to be UNREACHABLE.
    Silent,
    /// It became UNREACHABLE then.
    Fell(Instant),
}

/// What the guard found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Moves are held from now on: so many of so many nodes were lost at once.
    Held { lost: usize, of: usize },
    /// Moves go on.
    Resumed,
}

/// The guard.
#[derive(Clone, Debug, Default)]
pub(super) struct Guard {
    held: Option<Hold>,
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    /// Nodes lost before this are no part of it.
    began: Instant,
    /// Since when the share has been back to normal.
    normal: Option<Instant>,
}

impl Guard {
    /// Whether moves are held.
    pub(super) fn is_holding(&self) -> bool {
        self.held.is_some()
    }

    /// When moves may go on, if nothing happens until then.
    pub(super) fn next_wake(&self, settings: &GuardSettings) -> Option<Instant> {
        Some(self.held?.normal? + settings.window)
    }

    /// Judges the signs of all nodes; says what changed.
    pub(super) fn judge(
        &mut self,
        now: Instant,
        signs: impl Iterator<Item = Sign>,
        settings: &GuardSettings,
    ) -> Option<Verdict> {
        let began = self.held.map(|hold| hold.began);
        let began = began.or(now.checked_sub(settings.window)).unwrap_or(now);
        let (mut alive, mut silent, mut fell) = (0, 0, 0);
        for sign in signs {
            match sign {
                Sign::Alive => alive += 1,
                Sign::Silent => silent += 1,
                Sign::Fell(at) if at >= began => fell += 1,
                // Lost long ago: it says nothing of what can be heard now.
                Sign::Fell(_) => {}
            }
        }
        let (lost, of) = (silent + fell, alive + silent + fell);
        let share = lost as f64 > settings.max_unreachable * of as f64;
        let suspicious = fell > 0 && of >= FEWEST && share;
        match &mut self.held {
            None if suspicious => {
                self.held = Some(Hold {
                    began,
                    normal: None,
                });
                Some(Verdict::Held { lost, of })
            }
            None => None,
            Some(hold) if suspicious => {
                hold.normal = None;
                None
            }
            Some(hold) => {
                let normal = *hold.normal.get_or_insert(now);
                let over = now.saturating_duration_since(normal) >= settings.window;
                over.then(|| {
                    self.held = None;
                    Verdict::Resumed
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: GuardSettings = GuardSettings {
        max_unreachable: 0.55,
        window: Duration::from_secs(1),
        silence: Duration::from_millis(750),
    };

    fn judge(guard: &mut Guard, now: Instant, lost: &[Instant], alive: usize) -> Option<Verdict> {
        let fell = lost.iter().copied().map(Sign::Fell);
        let signs = fell.chain(std::iter::repeat_n(Sign::Alive, alive));
        guard.judge(now, signs, &SETTINGS)
    }

    #[test]
    fn more_than_the_share_lost_at_once_holds() {
        let (mut guard, now) = (Guard::default(), Instant::now());
        assert_eq!(judge(&mut guard, now, &[now; 11], 9), None);
        assert_eq!(
            judge(&mut guard, now, &[now; 12], 8),
            Some(Verdict::Held { lost: 12, of: 20 })
        );
        assert!(guard.is_holding());
    }

    #[test]
    fn the_first_to_fall_is_enough_if_the_others_are_silent_already() {
        let (mut guard, now) = (Guard::default(), Instant::now());
        let silent = || std::iter::repeat_n(Sign::Silent, 19);
        assert_eq!(guard.judge(now, silent(), &SETTINGS), None);
        let signs = silent().chain([Sign::Fell(now)]);
        let held = Some(Verdict::Held { lost: 20, of: 20 });
        assert_eq!(guard.judge(now, signs, &SETTINGS), held);
    }

    #[test]
    fn nodes_lost_long_ago_do_not_count_either_way() {
        let mut guard = Guard::default();
        let long_ago = Instant::now();
        let now = long_ago + Duration::from_secs(100);
        let mut lost = vec![long_ago; 100];
        assert_eq!(judge(&mut guard, now, &lost, 4), None);
        lost.extend([now; 3]);
        assert_eq!(
            judge(&mut guard, now, &lost, 1),
            Some(Verdict::Held { lost: 3, of: 4 })
        );
    }

    #[test]
    fn two_nodes_are_too_few_to_tell() {
        let (mut guard, now) = (Guard::default(), Instant::now());
        assert_eq!(judge(&mut guard, now, &[now; 2], 0), None);
    }

    #[test]
    fn it_holds_as_long_as_the_nodes_stay_lost() {
        let (mut guard, now) = (Guard::default(), Instant::now());
        judge(&mut guard, now, &[now; 20], 0);
        let later = now + Duration::from_secs(3600);
        assert_eq!(judge(&mut guard, later, &[now; 20], 0), None);
        assert!(guard.is_holding());
    }

    #[test]
    fn moves_go_on_only_once_every_node_had_time_to_be_heard_again() {
        let (mut guard, now) = (Guard::default(), Instant::now());
        judge(&mut guard, now, &[now; 20], 0);
        let healed = now + Duration::from_secs(60);
        assert_eq!(judge(&mut guard, healed, &[now; 11], 9), None);
        assert!(guard.is_holding());
        assert_eq!(guard.next_wake(&SETTINGS), Some(healed + SETTINGS.window));
        let verdict = judge(&mut guard, healed + SETTINGS.window, &[now; 1], 19);
        assert_eq!(verdict, Some(Verdict::Resumed));
        assert!(!guard.is_holding());
    }
}
