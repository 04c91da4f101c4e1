//! Who owns the egress IP, as the controller tells it, remembered.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::Result;
use controller::api::{EgressIp, ReportState};
use pulsepath_tests::egress::Scene;

use crate::clock::Clock;
use crate::console::Console;

/// How often the controller is asked, at most. When something changed it says itself.
const PERIOD: Duration = Duration::from_millis(20);

/// From when on who owns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owned {
    /// Since when, on the demo's own time line.
    pub(crate) since: Duration,
    /// The node; none: nobody.
    pub(crate) by: Option<String>,
}

/// Asks, when told to, and remembers.
pub(crate) struct Ownership {
    clock: Clock,
    console: Console,
    asked: Option<Instant>,
    history: Vec<Owned>,
    announced: bool,
}

impl Ownership {
    /// Knows of nobody yet.
    pub(crate) fn new(clock: Clock, console: Console) -> Self {
        Self {
            clock,
            console,
            asked: None,
            history: Vec::new(),
            announced: false,
        }
    }

    /// Asks the controller again, if it is time, and tells what is new.
    pub(crate) fn look(&mut self, scene: &Scene) -> Result<()> {
        if self.asked.is_some_and(|asked| asked.elapsed() < PERIOD) {
            return Ok(());
        }
        self.asked = Some(Instant::now());
        let address = scene.address()?;
        let report = address.report.as_ref();
        self.announced = report.is_some_and(|it| it.state == ReportState::Announced);
        if self.history.last().map(|last| &last.by) != Some(&address.owner) {
            self.note(address);
        }
        Ok(())
    }

    fn note(&mut self, address: EgressIp) {
        let owned = Owned {
            since: self.clock.at_system(address.since.0),
            by: address.owner,
        };
        let before = self.history.last().map(|last| last.to_string());
        let before = before.unwrap_or_else(|| "nobody".into());
        if owned.by.is_some() || before != "nobody" {
            let cause = address.cause.map(|cause| format!(" ({cause})"));
            self.console.tell_at(
                owned.since,
                &format!(
                    "controller: {} {before} -> {owned}{}",
                    address.address,
                    cause.unwrap_or_default()
                ),
            );
        }
        self.history.push(owned);
    }

    /// Whether `node` owns it, and has announced it.
    pub(crate) fn is_with(&self, node: &str) -> bool {
        let owner = self.history.last().and_then(|last| last.by.as_deref());
        owner == Some(node) && self.announced
    }

    /// Who owned it, from the beginning.
    pub(crate) fn history(&self) -> &[Owned] {
        &self.history
    }
}

impl fmt::Display for Owned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.by.as_deref().unwrap_or("nobody"))
    }
}
