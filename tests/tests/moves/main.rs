//! Egress IPs that move, or do not: a controller, agents, and a client that looks at the outcome.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests panic like the tests themselves"
)]

mod duplicate;
mod incarnation;
mod ipv6;
mod outage;
mod sequence;

use std::sync::{Mutex, MutexGuard, PoisonError};

use pulsepath_tests::egress::{Scene, Setup};

/// Measurements disturb each other: there is only one scene at a time, while the guard is held.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A scene at rest, and the guard.
fn start(purpose: &str, setup: Setup) -> (MutexGuard<'static, ()>, Scene) {
    (alone(), Scene::start(purpose, setup).unwrap())
}

/// As [`start`], with one egress IP: the one that the client's packets go through. `settings` are
/// the controller's.
fn start_with_one_address(purpose: &str, settings: &str) -> (MutexGuard<'static, ()>, Scene) {
    let settings = settings.to_owned();
    start(
        purpose,
        Setup {
            settings,
            ..Setup::default()
        },
    )
}
