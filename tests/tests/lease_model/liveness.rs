//! What must happen: without it the invariant would hold in a model in which nothing ever moves.

use crate::{
    rules::Rules,
    setup::Setup,
    time::{MS, Ms, RATES},
    world::{Action, World},
};

/// Between two rounds of probes.
const PERIOD: Ms = 50;

/// A cluster in which everybody does what is due, and only what is cut off fails.
struct Cluster {
    setup: Setup,
    world: World,
    /// Controllers that are gone.
    without_controllers: usize,
    /// A node that nobody reaches.
    cut: Option<usize>,
}

impl Cluster {
    fn new(setup: Setup) -> Self {
        let world = setup.settled(Rules::DESIGN, |clock| [RATES.0, RATES.1][clock % 2]);
        Self {
            setup,
            world,
            without_controllers: 0,
            cut: None,
        }
    }

    fn perform(&mut self, actions: &[Action]) {
        self.setup.perform(Rules::DESIGN, &mut self.world, actions);
    }

    /// Whether an action happens now, with all that follows from it.
    fn attempt(&mut self, action: Action) -> bool {
        let happened = self.world.apply(&self.setup, Rules::DESIGN, action);
        self.setup.settle_down(Rules::DESIGN, &mut self.world);
        happened
    }

    /// Time passes, with probes and votes as usual; `check` sees every period's end.
    fn pass(&mut self, ms: Ms, mut check: impl FnMut(&World)) {
        for _ in 0..ms / PERIOD {
            self.perform(&[Action::Advance { ms: PERIOD }]);
            let (setup, cut) = (self.setup, self.cut);
            let reached: Vec<_> = (0..setup.gateways)
                .filter(|node| cut != Some(*node))
                .collect();
            for controller in self.without_controllers..setup.controllers {
                if setup.controllers > 1 {
                    self.attempt(Action::Elect { controller });
                }
                for gateway in &reached {
                    self.perform(&[Action::Probe {
                        controller,
                        gateway: *gateway,
                    }]);
                }
            }
            for witness in (setup.witnesses_from..setup.nodes).filter(|node| cut != Some(*node)) {
                for gateway in &reached {
                    self.perform(&[Action::Vote {
                        witness,
                        gateway: *gateway,
                    }]);
                }
            }
            assert_eq!(self.world.two_owners(), None);
            check(&self.world);
        }
    }

    /// Waits until an action happens; tells how long that took.
    fn until(&mut self, action: Action, limit: Ms) -> Ms {
        let begin = self.world.now;
        while !self.attempt(action) {
            assert!(
                self.world.now - begin < limit,
                "{action:?} did not happen within {limit} ms"
            );
            self.pass(PERIOD, |_| ());
        }
        self.world.now - begin
    }

    fn ask_all(&mut self, controller: usize, gateway: usize) {
        for witness in (0..self.setup.nodes)
            .filter(|node| self.cut != Some(*node))
            .collect::<Vec<_>>()
        {
            self.attempt(Action::Ask {
                controller,
                gateway,
                witness,
            });
        }
    }
}

const CONTROLLER: usize = 0;

#[test]
fn leases_are_held_while_nothing_fails() {
    for setup in [Setup::SEPARATE, Setup::MIXED, Setup::LARGE, Setup::STRICT] {
        Cluster::new(setup).pass(5000, |world| {
            assert!((0..setup.gateways).all(|node| world.lease_held(node)));
            assert!(world.passes(0, 0));
        });
    }
}

#[test]
fn votes_keep_leases_up_without_controllers() {
    let mut cluster = Cluster::new(Setup::MIXED);
    cluster.without_controllers = 2;
    cluster.pass(20_000, |world| {
        assert!(world.passes(0, 0) && world.passes(1, 1))
    });
}

#[test]
fn without_votes_egress_ends_a_lease_after_the_last_controller() {
    let mut cluster = Cluster::new(Setup::STRICT);
    cluster.pass(1000, |world| assert!(world.passes(0, 0)));
    cluster.without_controllers = 2;
    let lease = cluster.setup.lease_time / MS;
    cluster.pass(lease - 2 * PERIOD, |world| assert!(world.passes(0, 0)));
    cluster.pass(2 * PERIOD, |_| ());
    assert!(!cluster.world.passes(0, 0));
}

#[test]
fn a_live_agent_hands_an_address_over_at_once() {
    let mut cluster = Cluster::new(Setup::MIXED);
    cluster.perform(&[
        Action::Take {
            controller: CONTROLLER,
            address: 0,
        },
        Action::Push {
            controller: CONTROLLER,
            gateway: 0,
        },
        Action::Place {
            controller: CONTROLLER,
            address: 0,
            gateway: 2,
        },
        Action::Push {
            controller: CONTROLLER,
            gateway: 2,
        },
    ]);
    assert!(cluster.world.passes(2, 0) && !cluster.world.passes(0, 0));
}

#[test]
fn the_address_of_a_node_that_is_cut_off_moves_a_lease_later() {
    for setup in [Setup::SEPARATE, Setup::MIXED, Setup::LARGE, Setup::STRICT] {
        let mut cluster = Cluster::new(setup);
        cluster.pass(1000, |_| ());
        cluster.cut = Some(0);
        cluster.perform(&[Action::Take {
            controller: CONTROLLER,
            address: 0,
        }]);
        cluster.ask_all(CONTROLLER, 0);
        let place = Action::Place {
            controller: CONTROLLER,
            address: 0,
            gateway: 1,
        };
        let took = cluster.until(place, setup.lease_time / MS + 3 * PERIOD);
        println!("safe after {took} ms");
        cluster.perform(&[Action::Push {
            controller: CONTROLLER,
            gateway: 1,
        }]);
        assert!(cluster.world.passes(1, 0));
    }
}

#[test]
fn without_a_majority_of_promises_nothing_moves() {
    let mut cluster = Cluster::new(Setup::SEPARATE);
    cluster.cut = Some(0);
    cluster.perform(&[
        Action::Take {
            controller: CONTROLLER,
            address: 0,
        },
        Action::Ask {
            controller: CONTROLLER,
            gateway: 0,
            witness: 2,
        },
    ]);
    for _ in 0..100 {
        cluster.pass(PERIOD, |_| ());
        assert!(!cluster.attempt(Action::Place {
            controller: CONTROLLER,
            address: 0,
            gateway: 1
        }));
    }
}

#[test]
fn another_address_costs_a_node_no_lease() {
    let mut cluster = Cluster::new(Setup::MIXED);
    cluster.perform(&[
        Action::Take {
            controller: CONTROLLER,
            address: 1,
        },
        Action::Push {
            controller: CONTROLLER,
            gateway: 1,
        },
        Action::Place {
            controller: CONTROLLER,
            address: 1,
            gateway: 0,
        },
    ]);
    // The agent has not yet been told: the floor must not exclude what it has applied.
    cluster.pass(3000, |world| assert!(world.passes(0, 0)));
    cluster.perform(&[Action::Push {
        controller: CONTROLLER,
        gateway: 0,
    }]);
    assert!(cluster.world.passes(0, 0) && cluster.world.passes(0, 1));
}

#[test]
fn an_aborted_move_leaves_the_address_where_it_was() {
    let mut cluster = Cluster::new(Setup::MIXED);
    cluster.perform(&[Action::Take {
        controller: CONTROLLER,
        address: 0,
    }]);
    cluster.ask_all(CONTROLLER, 0);
    cluster.perform(&[
        Action::Abort {
            controller: CONTROLLER,
            address: 0,
        },
        Action::Push {
            controller: CONTROLLER,
            gateway: 0,
        },
    ]);
    cluster.pass(5000, |world| assert!(world.passes(0, 0)));
}

#[test]
fn a_witness_is_replaced_without_a_gap() {
    let mut cluster = Cluster::new(Setup::MIXED);
    let mut replaced = |slot, by| {
        cluster.perform(&[
            Action::ChangeWitness {
                controller: CONTROLLER,
                gateway: 0,
                slot,
                by,
            },
            Action::Push {
                controller: CONTROLLER,
                gateway: 0,
            },
            Action::Settle {
                controller: CONTROLLER,
                gateway: 0,
            },
        ]);
        cluster.pass(2000, |world| assert!(world.passes(0, 0)));
    };
    replaced(0, 4);
    replaced(1, 5);
    cluster.without_controllers = 2;
    cluster.pass(3000, |world| assert!(world.passes(0, 0)));
}

#[test]
fn another_controller_takes_over_and_moves_on() {
    let mut cluster = Cluster::new(Setup::MIXED);
    cluster.perform(&[Action::Take {
        controller: CONTROLLER,
        address: 0,
    }]);
    cluster.without_controllers = 1;
    let controller = 1;
    cluster.until(Action::Claim { controller }, 1500);
    cluster.cut = Some(0);
    cluster.ask_all(controller, 0);
    cluster.until(
        Action::Place {
            controller,
            address: 0,
            gateway: 2,
        },
        1200,
    );
    cluster.perform(&[Action::Push {
        controller,
        gateway: 2,
    }]);
    cluster.pass(PERIOD, |world| assert!(world.passes(2, 0)));
}

#[test]
fn a_rebooted_node_passes_its_address_again_once_it_is_told() {
    let mut cluster = Cluster::new(Setup::MIXED);
    cluster.perform(&[Action::Reboot { node: 0 }]);
    cluster.pass(500, |world| assert!(!world.passes(0, 0)));
    cluster.perform(&[Action::Push {
        controller: CONTROLLER,
        gateway: 0,
    }]);
    cluster.pass(3 * PERIOD, |_| ());
    assert!(cluster.world.passes(0, 0));
}
