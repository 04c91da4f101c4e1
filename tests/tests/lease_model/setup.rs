//! How large the cluster is, and how it fences.

use crate::{
    record::Terms,
    rules::{Clause, Rules},
    time::{MS, Ns},
    witness::Instance,
    world::{Action, World},
};

/// A configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    /// The first nodes are gateway nodes.
    pub(crate) gateways: usize,
    pub(crate) nodes: usize,
    /// The nodes from this one on can be witnesses: 0 if gateway nodes are witnesses, too.
    pub(crate) witnesses_from: usize,
    /// Witnesses in a set: 0 with `fencing: strict`.
    pub(crate) set_size: usize,
    pub(crate) addresses: usize,
    /// One leads without an election (standalone); two elect (Kubernetes).
    pub(crate) controllers: usize,
    /// L.
    pub(crate) lease_time: Ns,
}

impl Setup {
    /// Two gateway nodes, sets of three out of five other nodes, a standalone controller.
    pub(crate) const SEPARATE: Self = Self {
        gateways: 2,
        nodes: 7,
        witnesses_from: 2,
        set_size: 3,
        addresses: 1,
        controllers: 1,
        lease_time: 1000 * MS,
    };

    /// Three gateway nodes that are witnesses, too, as in a real cluster, and two controllers.
    pub(crate) const MIXED: Self = Self {
        gateways: 3,
        witnesses_from: 0,
        addresses: 2,
        controllers: 2,
        ..Self::SEPARATE
    };

    /// Five witnesses out of six nodes.
    pub(crate) const LARGE: Self = Self {
        set_size: 5,
        ..Self::MIXED
    };

    /// `fencing: strict`: no votes.
    pub(crate) const STRICT: Self = Self {
        set_size: 0,
        ..Self::MIXED
    };

    /// `fencing: strict` under a standalone controller.
    pub(crate) const STRICT_ALONE: Self = Self {
        set_size: 0,
        ..Self::SEPARATE
    };

    /// The set that a node gets first: the first candidates, without itself.
    pub(crate) fn first_set(&self, rules: Rules, gateway: usize, terms: &mut Terms) {
        let hosts = (self.witnesses_from..self.nodes)
            .filter(|host| self.may_witness(rules, *host, gateway));
        for (slot, host) in terms.set.iter_mut().zip(hosts).take(self.set_size) {
            *slot = Some(Instance::first(host));
        }
    }

    /// Whether a node can be in the set of a gateway node.
    pub(crate) const fn may_witness(&self, rules: Rules, host: usize, gateway: usize) -> bool {
        host >= self.witnesses_from && (host != gateway || !rules.has(Clause::OwnVoteExcluded))
    }

    /// A cluster in which every address has been placed, all leases are held, and nothing is under way.
    /// `rates`: of the nodes' clocks, then the controllers'.
    pub(crate) fn settled(&self, rules: Rules, rates: impl Fn(usize) -> u64) -> World {
        let mut world = World::new(self, rates);
        let controller = 0;
        if self.controllers > 1 {
            self.perform(
                rules,
                &mut world,
                &[Action::Elect { controller }, Action::Elect { controller }],
            );
        }
        self.perform(rules, &mut world, &[Action::Claim { controller }]);
        for gateway in 0..self.gateways {
            if self.set_size > 0 {
                self.perform(
                    rules,
                    &mut world,
                    &[Action::FirstSet {
                        controller,
                        gateway,
                    }],
                );
            }
            let told = [Action::Push {
                controller,
                gateway,
            }];
            self.perform(rules, &mut world, &told);
            if self.set_size > 0 {
                self.perform(
                    rules,
                    &mut world,
                    &[Action::Settle {
                        controller,
                        gateway,
                    }],
                );
            }
        }
        for address in 0..self.addresses {
            let gateway = address % self.gateways;
            let place = [
                Action::Place {
                    controller,
                    address,
                    gateway,
                },
                Action::Push {
                    controller,
                    gateway,
                },
            ];
            self.perform(rules, &mut world, &place);
        }
        self.probe_all(rules, &mut world);
        self.probe_all(rules, &mut world);
        world
    }

    /// Every prober that is up probes every gateway node once, and nothing is lost.
    pub(crate) fn probe_all(&self, rules: Rules, world: &mut World) {
        for gateway in 0..self.gateways {
            for controller in 0..self.controllers {
                self.perform(
                    rules,
                    world,
                    &[Action::Probe {
                        controller,
                        gateway,
                    }],
                );
            }
            for witness in self.witnesses_from..self.nodes {
                self.perform(rules, world, &[Action::Vote { witness, gateway }]);
            }
        }
    }

    /// Lets actions happen one after the other, each with everything that follows from it.
    pub(crate) fn perform(&self, rules: Rules, world: &mut World, actions: &[Action]) {
        for action in actions {
            assert!(
                world.apply(self, rules, *action),
                "{action:?} must be possible in {world:#?}"
            );
            self.settle_down(rules, world);
        }
    }

    /// Delivers every letter, and lets every agent finish what it applies.
    pub(crate) fn settle_down(&self, rules: Rules, world: &mut World) {
        self.follow(rules, world, 0);
    }

    /// The same, save for the `held` oldest letters.
    pub(crate) fn follow(&self, rules: Rules, world: &mut World, held: usize) {
        loop {
            if world.letters.len() > held {
                world.apply(self, rules, Action::Deliver { letter: held });
            } else if let Some(gateway) = world.nodes.iter().position(|node| node.job.is_some()) {
                world.apply(self, rules, Action::AgentStep { gateway });
            } else {
                return;
            }
        }
    }
}
