//! What schedules are made of besides chance: plans that a controller would follow, with probes in between.
//! Pure chance hardly ever completes a move; every single action of a plan may still fail, be left out,
//! be delayed, or be followed by anything else.

use std::collections::VecDeque;

use crate::{
    schedule::Schedule,
    search::Fault,
    time::Ms,
    world::{Action, GATEWAYS, SLOTS},
};

/// A step of a plan.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Planned {
    Act(Action),
    /// The controller takes or renews the lock, or claims the record: whichever comes next.
    Lead {
        controller: usize,
    },
    /// Time passes until the controller holds what it took from the gateway for safe.
    UntilSafe {
        controller: usize,
        gateway: usize,
    },
}

/// Nobody waits longer than that for something to become safe.
const LONGEST_WAIT: Ms = 10_000;

impl Schedule<'_> {
    /// The action that a step of a plan comes to, if any.
    pub(crate) fn resolve(&mut self, planned: Planned) -> Option<Action> {
        match planned {
            Planned::Act(action) => Some(action),
            Planned::Lead { controller } => Some(self.lead(controller)),
            Planned::UntilSafe {
                controller,
                gateway,
            } => {
                let ms = self
                    .world
                    .next_safe(self.search.rules, controller, gateway)?;
                (1..LONGEST_WAIT)
                    .contains(&ms)
                    .then_some(Action::Advance { ms })
            }
        }
    }

    /// The next plan.
    pub(crate) fn make_plan(&mut self) -> VecDeque<Planned> {
        let setup = self.search.setup;
        let controller = self.controller();
        let gateway = self.random.index(setup.gateways);
        let (changes, elections) = (
            self.search.faults.contains(&Fault::Change),
            self.search.faults.contains(&Fault::Election),
        );
        let mut plan = VecDeque::new();
        match self.random.below(8) {
            0 => self.round(&mut plan, gateway),
            1 if elections => {
                plan.push_back(Planned::Act(Action::Advance {
                    ms: [500, 1010, 1020][self.random.index(3)],
                }));
                plan.extend([Planned::Lead { controller }; 3]);
            }
            2 if changes => self.change(&mut plan, controller, gateway),
            _ => self.evict(&mut plan, controller),
        }
        if setup.controllers > 1 {
            plan.push_back(Planned::Lead { controller });
        }
        plan
    }

    /// Everybody probes a gateway. A vote echoes the reply to the probe before it, so two rounds give the
    /// longest lease.
    fn round(&mut self, plan: &mut VecDeque<Planned>, gateway: usize) {
        let setup = self.search.setup;
        for _ in 0..1 + self.random.below(2) {
            for witness in setup.witnesses_from..setup.nodes {
                if self.random.chance(self.diligence) {
                    plan.push_back(Planned::Act(Action::Vote { witness, gateway }));
                }
            }
            if self.random.chance(40) {
                let controller = self.random.index(setup.controllers);
                plan.push_back(Planned::Act(Action::Probe {
                    controller,
                    gateway,
                }));
            }
        }
    }

    /// Replaces, adds or removes a witness, or changes L.
    fn change(&mut self, plan: &mut VecDeque<Planned>, controller: usize, gateway: usize) {
        let setup = self.search.setup;
        plan.push_back(Planned::Act(
            if setup.set_size == 0 || self.random.chance(25) {
                Action::ChangeLease {
                    controller,
                    gateway,
                }
            } else {
                let slot = self.random.index(SLOTS);
                let by =
                    setup.witnesses_from + self.random.index(setup.nodes - setup.witnesses_from);
                Action::ChangeWitness {
                    controller,
                    gateway,
                    slot,
                    by,
                }
            },
        ));
        if self.random.chance(70) {
            plan.push_back(Planned::Act(Action::Push {
                controller,
                gateway,
            }));
            plan.push_back(Planned::Act(Action::Settle {
                controller,
                gateway,
            }));
        }
    }

    /// Moves an address: take, ask, wait, place, tell.
    fn evict(&mut self, plan: &mut VecDeque<Planned>, controller: usize) {
        let setup = self.search.setup;
        let address = self.random.index(setup.addresses);
        let record = &self.world.controllers[controller].record;
        let from = (0..GATEWAYS)
            .find(|node| record.nodes[*node].may_hold(address))
            .unwrap_or(0);
        let to = (from + 1 + self.random.index(setup.gateways - 1)) % setup.gateways;
        let silent = self.random.chance(80);
        let mut steps = vec![Planned::Act(Action::Take {
            controller,
            address,
        })];
        if !silent {
            steps.push(Planned::Act(Action::Push {
                controller,
                gateway: from,
            }));
        }
        for witness in setup.witnesses_from..setup.nodes {
            if self.random.chance(80) {
                steps.push(Planned::Act(Action::Ask {
                    controller,
                    gateway: from,
                    witness,
                }));
            }
        }
        steps.push(Planned::UntilSafe {
            controller,
            gateway: from,
        });
        steps.push(Planned::Act(Action::Place {
            controller,
            address,
            gateway: to,
        }));
        steps.push(Planned::Act(Action::Push {
            controller,
            gateway: to,
        }));
        for step in steps {
            if self.random.chance(15) {
                self.round(plan, from);
            }
            plan.push_back(step);
        }
        self.round(plan, to);
        self.round(plan, from);
    }
}
