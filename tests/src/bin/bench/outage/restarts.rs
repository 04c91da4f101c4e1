//! Agents that are killed and restarted while packets flow: nothing is lost, nothing moves.

use std::fmt;

use anyhow::Result;
use controller::api::State;
use pulsepath_tests::egress::Stream;

use super::pulsepath::Pulsepath;

/// What became of all rounds.
pub(super) struct Restarts {
    rounds: u32,
    /// Rounds in which nothing was lost and nothing moved.
    clean: u32,
    sent: u64,
    lost: u64,
    moved: u32,
}

impl Restarts {
    /// What was off, if anything was.
    pub(super) fn missed(&self) -> Option<String> {
        let missed = self.clean < self.rounds;
        missed.then(|| {
            let disturbed = self.rounds - self.clean;
            format!(
                "agents' restarts were noticed in {disturbed} of {} rounds",
                self.rounds
            )
        })
    }
}

impl fmt::Display for Restarts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rounds,
            clean,
            sent,
            lost,
            moved,
        } = self;
        write!(
            f,
            "Owner's agent killed, then all agents restarted one by one: {lost} of {sent} \
             datagrams lost, {moved} moves; {clean} of {rounds} rounds without either"
        )
    }
}

/// Kills the owner's agent (SIGKILL) and starts it again, then restarts all agents (SIGTERM), one
/// after the other, `rounds` times.
pub(super) fn run(pulsepath: &mut Pulsepath, rounds: u32) -> Result<Restarts> {
    println!("Pulsepath, default profile: {rounds} rounds of killed and restarted agents");
    let mut sum = Restarts {
        rounds,
        clean: 0,
        sent: 0,
        lost: 0,
        moved: 0,
    };
    for _ in 0..rounds {
        let (sent, lost, moved) = round(pulsepath)?;
        println!("  {lost} of {sent} datagrams lost, moved: {moved}");
        sum.sent += sent;
        sum.lost += lost;
        sum.moved += u32::from(moved);
        sum.clean += u32::from(lost == 0 && !moved);
    }
    Ok(sum)
}

/// One round: datagrams sent, datagrams lost, whether the address moved.
fn round(pulsepath: &mut Pulsepath) -> Result<(u64, u64, bool)> {
    let scene = &mut pulsepath.scene;
    let (owner, since) = (scene.owner()?, scene.address()?.since);
    let stream = Stream::start(scene.external())?;
    scene.take_agent(owner)?.kill()?;
    scene.await_state(owner, State::Unavailable)?;
    scene.spawn_agent(owner)?;
    scene.await_agent(owner)?;
    scene.await_state(owner, State::Available)?;
    for index in scene.indices() {
        scene.take_agent(index)?.terminate()?;
        scene.spawn_agent(index)?;
        scene.await_agent(index)?;
        scene.await_state(index, State::Available)?;
    }
    let report = stream.finish();
    let moved = (scene.owner()?, scene.address()?.since) != (owner, since);
    Ok((report.sent, report.lost(), moved))
}
