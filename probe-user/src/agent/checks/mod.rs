//! Local checks: whether what else has to work on this node works.
//!
//! Each runs in a task of its own. Until its first answer, and after an answer that takes too
//! long, a check does not pass.

mod ask;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use probe_ebpf::maps::LocalChecks;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tracing::{info, warn};

use super::settings::Check;
use ask::Question;

/// A check as it stands.
#[derive(Debug)]
pub(super) struct CheckState {
    /// Its name.
    pub(super) name: String,
    up: AtomicBool,
}

impl CheckState {
    /// Whether it passes.
    pub(super) fn is_up(&self) -> bool {
        self.up.load(Ordering::Relaxed)
    }
}

/// All local checks. Dropping them stops them.
pub(super) struct Checks {
    states: Vec<Arc<CheckState>>,
    _tasks: JoinSet<()>,
}

impl Checks {
    /// Starts the checks. Needs a tokio runtime.
    pub(super) fn start(checks: &[Check]) -> Self {
        let mut tasks = JoinSet::new();
        let start = |check: &Check| {
            let state = Arc::new(CheckState {
                name: check.name.clone(),
                up: AtomicBool::new(false),
            });
            tasks.spawn(repeat(check.clone(), state.clone()));
            state
        };
        let states = checks.iter().map(start).collect();
        Self {
            states,
            _tasks: tasks,
        }
    }

    /// The checks, for metrics.
    pub(super) fn states(&self) -> Vec<Arc<CheckState>> {
        self.states.clone()
    }

    /// What all of them together say.
    pub(super) fn verdict(&self) -> LocalChecks {
        if self.states.is_empty() {
            LocalChecks::None
        } else if self.states.iter().all(|state| state.is_up()) {
            LocalChecks::Passing
        } else {
            LocalChecks::Failing
        }
    }
}

async fn repeat(check: Check, state: Arc<CheckState>) {
    let question = Question::new(&check);
    let mut ticks = interval(check.period.0);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = None;
    loop {
        ticks.tick().await;
        let answer = match timeout(check.timeout.0, question.ask()).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("no answer within {}", check.timeout)),
        };
        state.up.store(answer.is_ok(), Ordering::Relaxed);
        let now = Some(answer.is_ok());
        if now != last {
            match answer {
                Ok(()) => info!(check = check.name, "local check passes"),
                Err(reason) => warn!(check = check.name, reason, "local check fails"),
            }
            last = now;
        }
    }
}

#[cfg(test)]
mod tests;
