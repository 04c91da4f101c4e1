//! The whole cluster, what can happen in it, and what must never be.

use std::fmt;

use crate::{
    agent::{Job, Step},
    controller::Controller,
    decide,
    kernel::{Guard, Kernel},
    letter::{Letter, Prober},
    record::{Assignment, Lock, Record, Store},
    rules::{Clause, Rules},
    setup::Setup,
    time::{Clock, MS, Ms, Ns},
    witness::{Instance, Witness},
};

/// Gateway nodes at most; they are the first nodes.
pub(crate) const GATEWAYS: usize = 3;
/// Nodes at most, gateways included.
pub(crate) const NODES: usize = 7;
/// Controllers at most.
pub(crate) const CONTROLLERS: usize = 2;
/// Egress IPs at most.
pub(crate) const ADDRESSES: usize = 2;
/// Slots for witnesses.
pub(crate) const SLOTS: usize = 5;

/// What can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    Advance {
        ms: Ms,
    },
    Deliver {
        letter: usize,
    },
    DeliverAndKeep {
        letter: usize,
    },
    Lose {
        letter: usize,
    },
    // a gateway node and its agent
    AgentStep {
        gateway: usize,
    },
    Restart {
        node: usize,
    },
    Reboot {
        node: usize,
    },
    LoseMemory {
        node: usize,
    },
    // a witness
    Vote {
        witness: usize,
        gateway: usize,
    },
    // a controller
    Probe {
        controller: usize,
        gateway: usize,
    },
    Elect {
        controller: usize,
    },
    Claim {
        controller: usize,
    },
    RestartController {
        controller: usize,
    },
    Take {
        controller: usize,
        address: usize,
    },
    Abort {
        controller: usize,
        address: usize,
    },
    Place {
        controller: usize,
        address: usize,
        gateway: usize,
    },
    Settle {
        controller: usize,
        gateway: usize,
    },
    FirstSet {
        controller: usize,
        gateway: usize,
    },
    ChangeWitness {
        controller: usize,
        gateway: usize,
        slot: usize,
        by: usize,
    },
    ChangeLease {
        controller: usize,
        gateway: usize,
    },
    Ask {
        controller: usize,
        gateway: usize,
        witness: usize,
    },
    Push {
        controller: usize,
        gateway: usize,
    },
}

/// A node: its kernel, its agent, and its duty as a witness (the same process).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    pub(crate) clock: Clock,
    pub(crate) kernel: Kernel,
    pub(crate) job: Option<Job>,
    pub(crate) witness: Witness,
}

/// The state of everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) now: Ms,
    pub(crate) nodes: Vec<Node>,
    pub(crate) controllers: Vec<Controller>,
    pub(crate) store: Store,
    pub(crate) letters: Vec<Letter>,
    incarnations: u16,
}

/// Two nodes whose fences pass the same address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TwoOwners {
    pub(crate) address: usize,
    pub(crate) nodes: (usize, usize),
}

impl fmt::Display for TwoOwners {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (one, other) = self.nodes;
        write!(
            out,
            "nodes {one} and {other} both pass address {}",
            self.address
        )
    }
}

impl World {
    /// A cluster in which nothing has happened yet. `rates`: of the nodes' clocks, then the controllers'.
    pub(crate) fn new(setup: &Setup, rates: impl Fn(usize) -> u64) -> Self {
        let record = Record::new(setup.lease_time);
        let node = |host: usize| Node {
            clock: Clock::new(rates(host), MS),
            kernel: Kernel::new(host as u16, [Guard::Shut; ADDRESSES], setup.lease_time),
            job: None,
            witness: Witness::new(Instance::first(host)),
        };
        let controller = |index: usize| {
            let clock = Clock::new(rates(NODES + index), (40_000 + 7000 * index as Ns) * MS);
            Controller::new(clock, record.clone(), setup.controllers == 1)
        };
        Self {
            now: 0,
            nodes: (0..setup.nodes).map(node).collect(),
            controllers: (0..setup.controllers).map(controller).collect(),
            store: Store {
                record: record.clone(),
                lock: Lock {
                    holder: None,
                    renewals: 0,
                },
            },
            letters: Vec::new(),
            incarnations: setup.nodes as u16,
        }
    }

    /// The invariant.
    pub(crate) fn two_owners(&self) -> Option<TwoOwners> {
        (0..ADDRESSES).find_map(|address| {
            let mut owners =
                (0..self.nodes.len().min(GATEWAYS)).filter(|node| self.passes(*node, address));
            let nodes = (owners.next()?, owners.next()?);
            Some(TwoOwners { address, nodes })
        })
    }

    /// Whether the fence of the node lets packets from the address out.
    pub(crate) fn passes(&self, node: usize, address: usize) -> bool {
        let node = &self.nodes[node];
        node.kernel.passes(node.clock.read(self.now), address)
    }

    /// Whether the node's lease is held.
    pub(crate) fn lease_held(&self, node: usize) -> bool {
        let node = &self.nodes[node];
        node.kernel.lease_held(node.clock.read(self.now))
    }

    /// Lets something happen. False if it cannot happen now; then nothing has changed.
    pub(crate) fn apply(&mut self, setup: &Setup, rules: Rules, action: Action) -> bool {
        match action {
            Action::Advance { ms } => {
                self.now += ms;
                true
            }
            Action::Deliver { letter } => {
                let known = letter < self.letters.len();
                known
                    .then(|| self.letters.remove(letter))
                    .is_some_and(|letter| self.deliver(rules, letter))
            }
            Action::DeliverAndKeep { letter } => self
                .letters
                .get(letter)
                .cloned()
                .is_some_and(|letter| self.deliver(rules, letter)),
            Action::Lose { letter } => {
                letter < self.letters.len() && {
                    self.letters.remove(letter);
                    true
                }
            }
            Action::AgentStep { gateway } => self.agent_step(rules, gateway),
            Action::Restart { node } => self.restart(rules, node),
            Action::Reboot { node } => self.reboot(setup, rules, node),
            Action::LoseMemory { node } => {
                self.nodes[node].witness.lose_memory(rules);
                true
            }
            Action::Vote { witness, gateway } => self.vote(witness, gateway),
            _ => decide::decide(self, setup, rules, action),
        }
    }

    fn agent_step(&mut self, rules: Rules, gateway: usize) -> bool {
        let node = &mut self.nodes[gateway];
        let Some(job) = &mut node.job else {
            return false;
        };
        if job.step(rules, &mut node.kernel) == Step::Confirm {
            let Assignment { epoch, terms, .. } = job.assignment;
            let letter = Letter::Confirm {
                to: job.from,
                from: gateway,
                confirmed: (epoch, terms.version),
            };
            node.job = None;
            self.letters.push(letter);
        }
        true
    }

    /// The agent's process dies, and another one adopts what is pinned.
    fn restart(&mut self, rules: Rules, node: usize) -> bool {
        let node = &mut self.nodes[node];
        node.job = None;
        node.witness.restart(rules, node.clock.read(self.now));
        true
    }

    /// Everything of ours is gone from the kernel, and the agent loads it afresh. In the worst case somebody
    /// else's configuration brings the addresses back that the node had.
    fn reboot(&mut self, setup: &Setup, rules: Rules, node: usize) -> bool {
        let node = &mut self.nodes[node];
        let left_over = node.kernel.guard.map(|guard| match guard {
            Guard::Shut => Guard::Shut,
            _ if rules.has(Clause::FreshLoadShuts) => Guard::Shut,
            _ => Guard::Unguarded,
        });
        node.clock.reboot(self.now);
        node.kernel = Kernel::new(self.incarnations, left_over, setup.lease_time);
        node.job = None;
        node.witness.lose_memory(rules);
        self.incarnations += 1;
        true
    }

    fn vote(&mut self, witness: usize, gateway: usize) -> bool {
        let request = self.nodes[witness].witness.vote(gateway);
        self.letters.push(Letter::Probe {
            from: Prober::Witness(witness),
            to: gateway,
            request,
        });
        true
    }

    /// When the controller's clock reads what it waits for: the next time at which it can place something.
    pub(crate) fn next_safe(&self, rules: Rules, controller: usize, gateway: usize) -> Option<Ms> {
        let decider = &self.controllers[controller];
        decider
            .safe_at(rules, gateway)
            .map(|safe| decider.clock.when(self.now, safe) - self.now)
    }
}
