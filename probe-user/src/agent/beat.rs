//! The sign of life, and the clocks it rests on.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use probe_ebpf::maps::{AgentBeat, AgentState, LocalChecks};

use super::settings::BeatSettings;

/// A clock that the kernel has; ns since its epoch.
fn nanos(clock: ClockId) -> nix::Result<u64> {
    let now = Duration::from(clock_gettime(clock)?);
    Ok(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
}

/// The boot clock, ns: what the kernel programs go by.
pub(super) fn boot_now() -> nix::Result<u64> {
    nanos(ClockId::CLOCK_BOOTTIME)
}

/// Unix time minus boot clock, ns. The boot clock is read on both sides of the wall clock, so that
/// half of what passes in between is the error.
fn wall_offset() -> nix::Result<u64> {
    let before = boot_now()?;
    let wall = nanos(ClockId::CLOCK_REALTIME)?;
    let after = boot_now()?;
    Ok(wall.wrapping_sub(before + (after - before) / 2))
}

/// What is written into `AGENT_BEAT`, from one tick to the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beat {
    timeout_ns: u64,
    value: AgentBeat,
}

impl Beat {
    /// Goes on from what an earlier agent wrote.
    pub(super) fn new(settings: &BeatSettings, earlier: AgentBeat) -> Self {
        let timeout_ns = u64::try_from(settings.timeout.0.as_nanos()).unwrap_or(u64::MAX);
        Self {
            timeout_ns,
            value: earlier,
        }
    }

    /// A tick of a loop that runs: beats, unless a local check fails.
    pub(super) fn tick(&mut self, checks: LocalChecks) -> nix::Result<AgentBeat> {
        let now = boot_now()?;
        self.value.wall_offset_ns = wall_offset()?;
        self.value.state = AgentState::Running;
        self.value.checks = checks;
        if checks != LocalChecks::Failing {
            self.value.last_ns = now;
            self.value.deadline_ns = now.saturating_add(self.timeout_ns);
        }
        Ok(self.value)
    }

    /// The wall clock's offset alone, for a reflector that has to answer before the first beat.
    pub(super) fn prepare(&mut self) -> nix::Result<AgentBeat> {
        self.value.wall_offset_ns = wall_offset()?;
        Ok(self.value)
    }

    /// The agent was asked to stop. Its last beat counts for as long as it said.
    pub(super) fn drain(&mut self) -> AgentBeat {
        self.value.state = AgentState::Draining;
        self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::HumanDuration;

    fn beat() -> Beat {
        let settings = BeatSettings {
            period: HumanDuration(Duration::from_millis(100)),
            timeout: HumanDuration(Duration::from_millis(500)),
        };
        Beat::new(&settings, AgentBeat::default())
    }

    #[test]
    fn a_beat_counts_until_its_timeout() {
        let value = beat().tick(LocalChecks::None).unwrap();
        assert_eq!(value.deadline_ns - value.last_ns, 500_000_000);
        assert!(value.is_up(boot_now().unwrap()));
    }

    #[test]
    fn a_failing_check_withholds_the_beat_and_says_so() {
        let mut beat = beat();
        let good = beat.tick(LocalChecks::Passing).unwrap();
        let bad = beat.tick(LocalChecks::Failing).unwrap();
        assert_eq!(
            (bad.last_ns, bad.deadline_ns),
            (good.last_ns, good.deadline_ns)
        );
        assert_eq!(bad.checks, LocalChecks::Failing);
    }

    #[test]
    fn draining_keeps_the_last_beat() {
        let mut beat = beat();
        let last = beat.tick(LocalChecks::None).unwrap();
        let drained = beat.drain();
        assert_eq!(
            drained,
            AgentBeat {
                state: AgentState::Draining,
                ..last
            }
        );
    }

    #[test]
    fn boot_clock_plus_offset_is_the_wall_clock() {
        let value = beat().tick(LocalChecks::None).unwrap();
        let wall = nanos(ClockId::CLOCK_REALTIME).unwrap();
        let ours = boot_now().unwrap().wrapping_add(value.wall_offset_ns);
        assert!(
            ours.abs_diff(wall) < 50_000_000,
            "{} ns apart",
            ours.abs_diff(wall)
        );
    }
}
