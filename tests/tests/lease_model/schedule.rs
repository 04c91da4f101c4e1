//! One random schedule: which action comes next, and which letters arrive at once.

use std::collections::VecDeque;

use crate::{
    plan::Planned,
    search::{Fault, Opening, Random, Search},
    time::RATES,
    weather::{self, Weather},
    world::{Action, CONTROLLERS, NODES, SLOTS, TwoOwners, World},
};

/// Letters that are kept on their way at most; then one is lost.
const LETTERS: usize = 24;

/// Kinds of actions, each with its weight in the calmest weather. A fault's kinds happen only if the search
/// asks for the fault.
const KINDS: [(Kind, u64); 21] = [
    (Kind::Moment, 4),
    (Kind::While, 2),
    (Kind::UntilSafe, 2),
    (Kind::Vote, 4),
    (Kind::Probe, 4),
    (Kind::Take, 1),
    (Kind::Place, 2),
    (Kind::Ask, 2),
    (Kind::Push, 4),
    (Kind::Agent, 2),
    (Kind::Settle, 1),
    (Kind::Lead, 2),
    (Kind::Letter, 6),
    (Kind::Of(Fault::Partition), 2),
    (Kind::Of(Fault::Freeze), 1),
    (Kind::Of(Fault::AgentRestart), 2),
    (Kind::Of(Fault::Reboot), 1),
    (Kind::Of(Fault::MemoryLoss), 1),
    (Kind::Of(Fault::ControllerRestart), 1),
    (Kind::Of(Fault::Abort), 2),
    (Kind::Of(Fault::Change), 2),
];

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A few milliseconds pass.
    Moment,
    /// About a lease passes, or a good part of it.
    While,
    /// Time passes until a controller holds something for safe.
    UntilSafe,
    Vote,
    Probe,
    Take,
    Place,
    Ask,
    Push,
    Agent,
    Settle,
    Lead,
    /// A letter that was on its way arrives, arrives twice, or is lost.
    Letter,
    Of(Fault),
}

/// One schedule while it runs.
pub(crate) struct Schedule<'a> {
    pub(crate) search: Search<'a>,
    pub(crate) random: Random,
    pub(crate) world: World,
    /// What a controller is about to do.
    plan: VecDeque<Planned>,
    /// How often the plan goes on, in percent; else something else happens.
    purpose: u64,
    /// How often each kind of action is tried.
    weights: [u64; KINDS.len()],
    /// How often a letter arrives at once, in percent.
    at_once: u64,
    /// How often a witness takes part in a round of probes, in percent.
    pub(crate) diligence: u64,
    /// Which paths are open, and which processes run.
    weather: Weather,
    log: Option<String>,
}

impl<'a> Schedule<'a> {
    /// A schedule that begins with a settled cluster. Every seed has its own weather: it does some things
    /// often, some seldom, and some never.
    pub(crate) fn new(search: Search<'a>, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let rates: [u64; NODES + CONTROLLERS] =
            std::array::from_fn(|_| RATES.0 + (RATES.1 - RATES.0) * random.below(3) / 2);
        let world = search.setup.settled(search.rules, |clock| rates[clock]);
        let weights = KINDS.map(|(kind, weight)| match kind {
            Kind::Of(fault) if !search.faults.contains(&fault) || random.chance(50) => 0,
            _ => weight * [0, 1, 2, 2, 4][random.index(5)],
        });
        let at_once = if search.faults.contains(&Fault::Delay) {
            [60, 85, 95][random.index(3)]
        } else {
            100
        };
        let weather = Weather::new(search.faults, &mut random);
        let diligence = [25, 50, 90][random.index(3)];
        Self {
            search,
            purpose: [50, 80, 90][random.index(3)],
            random,
            world,
            plan: VecDeque::new(),
            weights,
            at_once,
            diligence,
            weather,
            log: None,
        }
    }

    /// The same, and keeps a log.
    pub(crate) fn logged(self) -> Self {
        Self {
            log: Some(String::new()),
            ..self
        }
    }

    /// What happened, line by line.
    pub(crate) fn into_log(self) -> String {
        self.log.unwrap_or_default()
    }

    /// Runs the schedule to its end, or to the first violation.
    pub(crate) fn run(&mut self, steps: &mut u64) -> Option<TwoOwners> {
        for opening in self.search.opening {
            let (action, calm) = match opening {
                Opening::Do(action) => (*action, true),
                Opening::Only(action) => (*action, false),
            };
            let at_once = std::mem::replace(&mut self.at_once, if calm { 100 } else { 0 });
            let found = self.happen(action, steps);
            self.at_once = at_once;
            if found.is_some() {
                return found;
            }
        }
        (0..self.search.length).find_map(|_| {
            let action = self.choose()?;
            self.happen(action, steps)
        })
    }

    /// Lets an action happen, and what follows from it at once.
    fn happen(&mut self, action: Action, steps: &mut u64) -> Option<TwoOwners> {
        let mut next = Some(action);
        while let Some(action) = next {
            let line = self.log.is_some().then(|| self.describe(action));
            let delivers = usize::from(matches!(action, Action::Deliver { .. }));
            let letters = self.world.letters.len() - delivers.min(self.world.letters.len());
            if !self
                .world
                .apply(&self.search.setup, self.search.rules, action)
            {
                return None;
            }
            *steps += 1;
            if let (Some(log), Some(line)) = (&mut self.log, line) {
                log.push_str(&line);
            }
            if let Some(owners) = self.world.two_owners() {
                return Some(owners);
            }
            next = self.follows(action, letters);
        }
        None
    }

    /// A letter that has just been sent arrives at once, an agent goes on with what it applies: mostly.
    fn follows(&mut self, action: Action, letters: usize) -> Option<Action> {
        let newest = self.world.letters.len().checked_sub(1);
        if let Some(letter) = newest.filter(|_| self.world.letters.len() > letters) {
            if self.weather.open(&self.world.letters[letter]) && self.random.chance(self.at_once) {
                return Some(Action::Deliver { letter });
            }
            return (self.world.letters.len() > LETTERS).then(|| Action::Lose {
                letter: self.random.index(LETTERS),
            });
        }
        if matches!(
            action,
            Action::Deliver { .. } | Action::DeliverAndKeep { .. } | Action::AgentStep { .. }
        ) {
            let gateway = self
                .world
                .nodes
                .iter()
                .position(|node| node.job.is_some())?;
            let goes_on = self.weather.runs(gateway) && self.random.chance(self.at_once);
            return goes_on.then_some(Action::AgentStep { gateway });
        }
        None
    }

    /// The next action that is worth a try: mostly the next of the plan.
    fn choose(&mut self) -> Option<Action> {
        if self.plan.is_empty() {
            self.plan = self.make_plan();
        }
        let action = if self.random.chance(self.purpose) {
            let planned = self.plan.pop_front()?;
            self.resolve(planned)?
        } else {
            self.digress()?
        };
        actor(action)
            .is_none_or(|actor| self.weather.runs(actor))
            .then_some(action)
    }

    /// Something that no plan foresees.
    fn digress(&mut self) -> Option<Action> {
        let total: u64 = self.weights.iter().sum();
        let mut ticket = self.random.below(total.max(1));
        let at = self.weights.iter().position(|weight| {
            let here = ticket < *weight;
            ticket = ticket.saturating_sub(*weight);
            here
        })?;
        let setup = self.search.setup;
        let controller = self.controller();
        let gateway = self.random.index(setup.gateways);
        let address = self.random.index(setup.addresses);
        let node = self.random.index(setup.nodes);
        let witness = setup.witnesses_from + self.random.index(setup.nodes - setup.witnesses_from);
        Some(match KINDS[at].0 {
            Kind::Moment => Action::Advance {
                ms: [1, 5, 10, 50][self.random.index(4)],
            },
            Kind::While => Action::Advance {
                ms: [200, 500, 900, 980, 1000, 1020][self.random.index(6)],
            },
            Kind::UntilSafe => {
                let ms = self
                    .world
                    .next_safe(self.search.rules, controller, gateway)?;
                (ms > 0).then_some(Action::Advance { ms })?
            }
            Kind::Vote => Action::Vote { witness, gateway },
            Kind::Probe => Action::Probe {
                controller,
                gateway,
            },
            Kind::Take => Action::Take {
                controller,
                address,
            },
            Kind::Place => Action::Place {
                controller,
                address,
                gateway,
            },
            Kind::Ask => Action::Ask {
                controller,
                gateway,
                witness,
            },
            Kind::Push => Action::Push {
                controller,
                gateway,
            },
            Kind::Agent => Action::AgentStep { gateway },
            Kind::Settle => Action::Settle {
                controller,
                gateway,
            },
            Kind::Lead => self.lead(controller),
            Kind::Letter => self.letter()?,
            Kind::Of(fault) => self.fault(fault, controller, gateway, address, node, witness)?,
        })
    }

    /// Without elections only the first controller ever leads.
    pub(crate) fn controller(&mut self) -> usize {
        let elections = self.search.faults.contains(&Fault::Election);
        if elections {
            self.random.index(self.search.setup.controllers)
        } else {
            0
        }
    }

    pub(crate) fn lead(&self, controller: usize) -> Action {
        let leader = &self.world.controllers[controller];
        if leader.may_claim(leader.clock.read(self.world.now)) {
            Action::Claim { controller }
        } else {
            Action::Elect { controller }
        }
    }

    fn letter(&mut self) -> Option<Action> {
        let letter = self.random.index(self.world.letters.len().max(1));
        let arrives =
            letter < self.world.letters.len() && self.weather.open(&self.world.letters[letter]);
        arrives.then(|| match self.random.below(8) {
            0 => Action::Lose { letter },
            1..4 => Action::DeliverAndKeep { letter },
            _ => Action::Deliver { letter },
        })
    }

    fn fault(
        &mut self,
        fault: Fault,
        controller: usize,
        gateway: usize,
        address: usize,
        node: usize,
        witness: usize,
    ) -> Option<Action> {
        let set_size = self.search.setup.set_size;
        Some(match fault {
            Fault::AgentRestart => Action::Restart { node },
            Fault::Reboot => Action::Reboot { node },
            Fault::MemoryLoss => Action::LoseMemory { node },
            Fault::ControllerRestart => Action::RestartController { controller },
            Fault::Abort => Action::Abort {
                controller,
                address,
            },
            Fault::Change if set_size == 0 || self.random.chance(30) => Action::ChangeLease {
                controller,
                gateway,
            },
            Fault::Change => {
                let slot = self.random.index(SLOTS);
                Action::ChangeWitness {
                    controller,
                    gateway,
                    slot,
                    by: witness,
                }
            }
            Fault::Partition => {
                self.weather.partition(&mut self.random);
                return None;
            }
            Fault::Freeze => {
                self.weather.freeze(&mut self.random);
                return None;
            }
            Fault::Delay | Fault::Election => return None,
        })
    }

    fn describe(&self, action: Action) -> String {
        let now = self.world.now;
        let letter = match action {
            Action::Deliver { letter }
            | Action::DeliverAndKeep { letter }
            | Action::Lose { letter } => self.world.letters.get(letter),
            _ => None,
        };
        match (action, letter) {
            (Action::Lose { .. }, Some(letter)) => format!("{now:>6} ms  lost: {letter}\n"),
            (_, Some(letter)) => format!("{now:>6} ms    {letter}\n"),
            _ => format!("{now:>6} ms  {action:?}\n"),
        }
    }
}

/// Whose process must run for an action.
fn actor(action: Action) -> Option<usize> {
    match action {
        Action::AgentStep { gateway } => Some(gateway),
        Action::Vote { witness, .. } => Some(witness),
        Action::Probe { controller, .. }
        | Action::Elect { controller }
        | Action::Claim { controller }
        | Action::Take { controller, .. }
        | Action::Abort { controller, .. }
        | Action::Place { controller, .. }
        | Action::Settle { controller, .. }
        | Action::FirstSet { controller, .. }
        | Action::ChangeWitness { controller, .. }
        | Action::ChangeLease { controller, .. }
        | Action::Ask { controller, .. }
        | Action::Push { controller, .. } => Some(weather::controller(controller)),
        _ => None,
    }
}
