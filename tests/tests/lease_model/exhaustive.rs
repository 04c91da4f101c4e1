//! Exhaustive breadth-first search (stateright) of a small cluster in which an address has just been
//! taken from a node: every schedule up to a length, in steps of half a lease.
//! `PULSEPATH_MODEL_MOVES=8` searches longer ones.
//!
//! What follows from a step happens with it. One thing goes wrong at any time in every schedule: a
//! letter is held back, and arrives whenever the search likes, or never; or a process, a node, or a
//! memory is lost. The old owner's clock is the slowest, the others the fastest.

mod symmetry;

use stateright::{Checker, Model, Property};

use crate::{
    rules::{Clause, Rules},
    setup::Setup,
    time::{Ms, RATES},
    world::{Action, World},
};

/// Moves in the longest schedules unless the environment says otherwise.
const MOVES: usize = 5;
/// Half a lease.
const TICK: Ms = 500;

/// One gateway that loses its address to another, three witnesses, one controller.
const SMALL: Setup = Setup {
    nodes: 5,
    ..Setup::SEPARATE
};
const WITNESSES: std::ops::Range<usize> = 2..5;
/// The only one.
const CONTROLLER: usize = 0;

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Move {
    /// With all that follows from it.
    Happens(Action),
    /// The letter that it sends is held back: the schedule's fault.
    Sends(Action),
    /// The letter that was held back arrives.
    Arrives,
    /// A witness hears the gateway, and votes for what it heard.
    FreshVote { witness: usize },
    /// As soon as it is safe, the address is placed on the other gateway, which is told, and renewed.
    HandOver,
    /// The controller's process dies; the next one claims the record.
    NewController,
    /// Another fault, with all that follows from it.
    Fault(Action),
}

/// A state: the cluster, and how many faults it has seen.
#[derive(Clone, Debug, PartialEq)]
struct Small {
    world: World,
    faults: u8,
}

struct SmallModel {
    setup: Setup,
    rules: Rules,
}

impl SmallModel {
    /// An action, and what follows from it while the held letters stay. False if it cannot happen.
    fn perform(&self, world: &mut World, action: Action) -> bool {
        let held = world.letters.len();
        let happened = world.apply(&self.setup, self.rules, action);
        if happened {
            self.setup.follow(self.rules, world, held);
        }
        happened
    }

    fn perform_all(&self, world: &mut World, actions: &[Action]) -> bool {
        actions.iter().all(|action| self.perform(world, *action))
    }

    fn hand_over(&self, world: &mut World) -> bool {
        let Some(ms) = world.next_safe(self.rules, CONTROLLER, 0) else {
            return false;
        };
        let gateway = 1;
        let renew = Action::Probe {
            controller: CONTROLLER,
            gateway,
        };
        self.perform_all(
            world,
            &[
                Action::Advance { ms },
                Action::Place {
                    controller: CONTROLLER,
                    address: 0,
                    gateway,
                },
                Action::Push {
                    controller: CONTROLLER,
                    gateway,
                },
                renew,
                renew,
            ],
        )
    }
}

impl Model for SmallModel {
    type State = Small;
    type Action = Move;

    fn init_states(&self) -> Vec<Small> {
        let rates = |clock| if clock == 0 { RATES.0 } else { RATES.1 };
        let mut world = self.setup.settled(self.rules, rates);
        self.perform(
            &mut world,
            Action::Take {
                controller: CONTROLLER,
                address: 0,
            },
        );
        vec![Small { world, faults: 0 }]
    }

    fn actions(&self, state: &Small, moves: &mut Vec<Move>) {
        let (controller, gateway, address) = (CONTROLLER, 0, 0);
        let renew = Action::Probe {
            controller,
            gateway,
        };
        let push = Action::Push {
            controller,
            gateway,
        };
        let witnesses = || WITNESSES.take(self.setup.set_size);
        moves.extend([
            Move::Happens(Action::Advance { ms: TICK }),
            Move::Happens(renew),
            Move::Happens(Action::Take {
                controller,
                address,
            }),
            Move::Happens(Action::Abort {
                controller,
                address,
            }),
            Move::Happens(push),
            Move::HandOver,
        ]);
        for witness in witnesses() {
            moves.push(Move::FreshVote { witness });
            moves.push(Move::Happens(Action::Ask {
                controller,
                gateway,
                witness,
            }));
        }
        if !state.world.letters.is_empty() {
            moves.push(Move::Arrives);
        }
        if state.faults == 0 {
            moves.extend([Move::Sends(renew), Move::Sends(push), Move::NewController]);
            moves.push(Move::Fault(Action::Reboot { node: gateway }));
            for witness in witnesses() {
                moves.extend([
                    Move::Sends(Action::Vote { witness, gateway }),
                    Move::Fault(Action::Restart { node: witness }),
                    Move::Fault(Action::LoseMemory { node: witness }),
                ]);
            }
        }
    }

    fn next_state(&self, state: &Small, chosen: Move) -> Option<Small> {
        let mut next = state.clone();
        let Small { world, faults } = &mut next;
        *faults += u8::from(matches!(
            chosen,
            Move::Sends(_) | Move::NewController | Move::Fault(_)
        ));
        let possible = match chosen {
            Move::Happens(action) | Move::Fault(action) => self.perform(world, action),
            Move::Sends(action) => world.apply(&self.setup, self.rules, action),
            Move::Arrives => {
                let arrives = world.apply(&self.setup, self.rules, Action::Deliver { letter: 0 });
                self.setup.settle_down(self.rules, world);
                arrives
            }
            Move::FreshVote { witness } => self.perform_all(
                world,
                &[Action::Vote {
                    witness,
                    gateway: 0,
                }; 2],
            ),
            Move::HandOver => self.hand_over(world),
            Move::NewController => {
                let controller = CONTROLLER;
                let restart = Action::RestartController { controller };
                self.perform_all(world, &[restart, Action::Claim { controller }])
            }
        };
        (possible && next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE_OWNER, |_: &Self, state: &Small| {
                state.world.two_owners().is_none()
            }),
            Property::sometimes("the address moves", |_: &Self, state: &Small| {
                state.world.passes(1, 0)
            }),
        ]
    }
}

const ONE_OWNER: &str = "one owner";

fn moves() -> usize {
    std::env::var("PULSEPATH_MODEL_MOVES").map_or(MOVES, |moves| {
        moves
            .parse()
            .unwrap_or_else(|_| panic!("PULSEPATH_MODEL_MOVES={moves}: a number"))
    })
}

fn search(setup: Setup, rules: Rules) -> impl Checker<SmallModel> {
    // The checker counts the start as 1, and does not look at states at its greatest depth.
    let depth = moves() + 2;
    let checker = SmallModel { setup, rules }
        .checker()
        .target_max_depth(depth)
        .spawn_bfs()
        .join();
    println!(
        "{} states, {} transitions",
        checker.unique_state_count(),
        checker.state_count()
    );
    checker
}

#[test]
fn no_short_schedule_gives_an_address_two_owners() {
    search(SMALL, Rules::DESIGN).assert_properties();
}

#[test]
fn no_short_schedule_without_votes_gives_an_address_two_owners() {
    search(
        Setup {
            set_size: 0,
            ..SMALL
        },
        Rules::DESIGN,
    )
    .assert_properties();
}

#[test]
fn the_shortest_way_to_two_owners_is_found() {
    let clauses = [
        Clause::PromiseNeedsMajority,
        Clause::SafeWaitsForLease,
        Clause::FreshLoadShuts,
    ];
    for clause in clauses {
        let checker = search(SMALL, Rules::DESIGN.without(clause));
        let path = checker.discovery(ONE_OWNER);
        let path = path.unwrap_or_else(|| panic!("{clause:?} was not missed"));
        println!("without {clause:?}: {:#?}", path.into_actions());
    }
}
