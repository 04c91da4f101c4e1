//! Where schedules are run, one after the other.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use controller::api::State;

use super::schedules::{Ends, Schedule};
use super::{Fault, Fencing, LEASE, Part, Provocation, Trouble, Variant};
use crate::egress::{Claim, PATIENCE, Recorder, Scene, Stream, Use, overlap};
use crate::{link, within};

/// So many answers show that the client is served.
const SOME: u64 = 50;
/// Whatever an old owner has queued leaves within this time.
const LINGER: Duration = Duration::from_millis(300);
/// A client that has no answer for longer is not served, even if answers come late on a busy machine.
const NOTICEABLE: Duration = Duration::from_secs(1);

/// So few of a thousand packets a second a client may lose while it is served.
const FEW: u64 = 1000;

/// A scene of which every frame from the egress IP is recorded.
#[derive(Debug)]
pub struct Site {
    _provocation: Provocation,
    variant: Variant,
    /// The owner when the schedule began.
    owner: u8,
    trouble: Trouble,
}

/// Where the controller is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On a node that owns nothing, and never will.
    Apart,
    /// On the owner's node.
    OnOwner,
}

/// What was seen of a schedule.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Whether the egress IP has another owner than at first.
    pub moved: bool,
    /// For how long two owners were seen.
    pub overlap: Duration,
    /// When the first owner was seen last before the end, since the schedule began.
    pub last_seen: Duration,
    /// How many of the client's packets were not answered until everything was mended.
    pub lost: u64,
    /// The longest time between two answers to the client, which sends to nobody but the first owner.
    pub silence: Duration,
}

impl Site {
    /// All is well, and an owner answers.
    ///
    /// # Errors
    /// It does not come to that.
    pub fn start(purpose: &str, variant: Variant, place: Place) -> Result<Self> {
        let mut setup = variant.setup();
        if place == Place::OnOwner {
            setup.controller = 1;
        }
        let scene = Scene::start(purpose, setup)?;
        if place == Place::OnOwner {
            scene.drain(2)?;
            scene.await_owner(1)?;
            scene.undrain(2)?;
        }
        let outside = scene.external().outside();
        Ok(Self {
            _provocation: Provocation::start(outside, variant.address())?,
            variant,
            owner: scene.owner()?,
            trouble: Trouble::new(scene),
        })
    }

    /// The candidate that owned the egress IP when the schedule began.
    pub fn owner(&self) -> u8 {
        self.owner
    }

    /// The other candidate.
    pub fn other(&self) -> u8 {
        3 - self.owner
    }

    /// The node that the controller is on.
    pub fn controller(&self) -> u8 {
        self.scene().setup().controller
    }

    /// The owner, and so many of its witnesses: neither the other candidate nor the controller's node.
    ///
    /// # Errors
    /// It does not have as many.
    pub fn owner_with_witnesses(&self, count: usize) -> Result<Part> {
        let is_free = |node: &u8| *node != self.other() && *node != self.controller();
        let mut witnesses = self.scene().witnesses_of(self.owner)?;
        witnesses.retain(is_free);
        ensure!(witnesses.len() >= count, "only {witnesses:?} are free");
        let part = witnesses.into_iter().take(count);
        Ok(part.chain([self.owner]).collect())
    }

    /// How nodes are fenced and probed.
    pub fn variant(&self) -> Variant {
        self.variant
    }

    /// Nodes and processes.
    pub fn scene(&self) -> &Scene {
        &self.trouble.scene
    }

    /// Runs a schedule, and mends everything afterwards.
    ///
    /// # Errors
    /// Something cannot be done, the address moves although it should not, or it does not although it
    /// should, or too little is seen to say anything.
    pub fn run(&mut self, schedule: &Schedule) -> Result<Outcome> {
        let outcome = self.try_run(schedule);
        outcome.with_context(|| format!("{}: {}", self.variant, schedule.name))
    }

    fn try_run(&mut self, schedule: &Schedule) -> Result<Outcome> {
        if self.variant.fencing == Fencing::Quorum {
            self.scene().await_witnesses()?;
        }
        // A move that the last schedule began may go on after everything is mended.
        self.scene().await_settled()?;
        self.owner = self.scene().owner()?;
        self.pin_the_client()?;
        let recorder = Recorder::start(self.scene().external(), self.variant.address())?;
        let stream = Stream::start_over(self.scene().external(), self.variant.family)?;
        stream.await_answers(SOME, PATIENCE)?;
        let began = Instant::now();
        (schedule.happens)(self)?;
        if self.shall_move(schedule) {
            self.scene().await_owner(self.other())?;
        }
        let sent = stream.sent();
        std::thread::sleep(LINGER);
        let lost = stream.missing_of(sent);
        let ended = Instant::now();
        self.trouble.mend()?;
        std::thread::sleep(LINGER);
        let silence = stream.finish().longest_gap;
        let claims = recorder.finish()?;
        let last_seen = last_of(&claims, self.owner, ended).saturating_duration_since(began);
        let moved = self.scene().owner()? != self.owner;
        let outcome = Outcome {
            moved,
            overlap: self.overlap(&claims, moved),
            last_seen,
            lost,
            silence,
        };
        self.check(schedule, &outcome, &claims)?;
        Ok(outcome)
    }

    /// Whether the egress IP has another owner at the end, for certain.
    pub fn shall_move(&self, schedule: &Schedule) -> bool {
        match schedule.ends {
            Ends::Moved => true,
            Ends::MovedUnlessWitnessed => self.variant.fencing != Fencing::Quorum,
            Ends::Stayed | Ends::Abandoned | Ends::Either => false,
        }
    }

    /// The client's next hop is the owner's own link-layer address for good: it does not notice that
    /// the address has gone elsewhere.
    fn pin_the_client(&self) -> Result<()> {
        let [a, b, c, d, e, f] = link::mac(self.scene().node(self.owner).netns(), "ext0")?;
        let address = self.variant.address();
        let client = self.scene().external().client();
        client.ip(&format!(
            "neighbour replace {address} dev eth0 nud permanent \
             lladdr {a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}"
        ))?;
        Ok(())
    }

    /// Where nothing has moved, whatever is seen of the other node is too much.
    fn overlap(&self, claims: &[Claim], moved: bool) -> Duration {
        let (first, second) = (self.owner, self.other());
        match moved {
            true => overlap(claims, first, second),
            false => overlap(claims, second, first),
        }
    }

    fn check(&self, schedule: &Schedule, outcome: &Outcome, claims: &[Claim]) -> Result<()> {
        let expected = match schedule.ends {
            // On a busy machine witnesses may answer too late for it to stay.
            Ends::Moved | Ends::MovedUnlessWitnessed => outcome.moved || !self.shall_move(schedule),
            Ends::Stayed => !outcome.moved && outcome.lost < FEW,
            Ends::Abandoned => {
                let as_it_should = match self.variant.fencing {
                    Fencing::Strict => outcome.silence > NOTICEABLE,
                    Fencing::None | Fencing::Quorum => outcome.lost < FEW,
                };
                !outcome.moved && as_it_should
            }
            Ends::Either => true,
        };
        ensure!(expected, "it ends otherwise: {outcome:?}");
        for how in [Use::Packet, Use::Neighbour] {
            let seen = |claim: &Claim| claim.node == self.owner && claim.how == how;
            ensure!(
                claims.iter().any(seen),
                "no {how:?} of the old owner was seen"
            );
        }
        let by_other = claims.iter().any(|claim| claim.node == self.other());
        ensure!(by_other || !outcome.moved, "the new owner was not seen");
        Ok(())
    }

    /// Something goes wrong.
    ///
    /// # Errors
    /// As [`Trouble::begin`].
    pub fn begin(&mut self, fault: Fault) -> Result<()> {
        self.trouble.begin(fault)
    }

    /// It is mended.
    ///
    /// # Errors
    /// As [`Trouble::end`].
    pub fn end(&mut self, fault: Fault) -> Result<()> {
        self.trouble.end(fault)
    }

    /// Waits until a node's agent is ready again.
    ///
    /// # Errors
    /// It is not.
    pub fn await_agent(&mut self, node: u8) -> Result<()> {
        self.trouble.scene.await_agent(node)
    }

    /// Waits until a move has come so far.
    ///
    /// # Errors
    /// It does not.
    pub fn await_phase(&self, phase: Phase) -> Result<()> {
        match phase {
            Phase::Unnoticed => std::thread::sleep(LEASE / 8),
            Phase::Waiting => self.scene().await_state(self.owner, State::Unreachable)?,
            Phase::Moving => {
                let before = self.scene().moves()?;
                let moved = within(PATIENCE, || {
                    self.scene().moves().is_ok_and(|now| now > before)
                });
                moved.map_err(|_| anyhow!("nothing moves within {PATIENCE:?}"))?;
            }
            Phase::Announced => self.scene().await_owner(self.other())?,
        }
        Ok(())
    }
}

/// How far a move has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nobody knows yet that something is wrong.
    Unnoticed,
    /// The owner is UNREACHABLE, and its lease may be held still.
    Waiting,
    /// The new owner is chosen and recorded, and being told.
    Moving,
    /// It has announced itself.
    Announced,
}

/// When a node was last seen until `end`.
fn last_of(claims: &[Claim], node: u8, end: Instant) -> Instant {
    let mut of_node = claims.iter().rev().filter(|claim| claim.node == node);
    let last = of_node.find(|claim| claim.at <= end);
    last.map_or(end - LEASE, |claim| claim.at)
}
