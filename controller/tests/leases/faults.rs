//! What fails.

use std::time::Duration;

use controller::failover::Fencing;

use crate::agent::Agent;
use crate::kernel::Kernel;
use crate::witness::Witness;
use crate::world::{CONTROLLER, Rules, World};

impl World {
    /// Something happens, or is over.
    pub(crate) fn fail(&mut self) {
        let node = self.random.index(self.nodes.len());
        let time = 100 + self.random.below(4_000);
        match self.random.below(22) {
            0..=3 => self.network.heal(),
            4..=6 => self.isolate(node),
            7 | 8 => {
                self.network.block(node + 1, CONTROLLER);
                self.network.block(CONTROLLER, node + 1);
            }
            9 => self.network.block(node + 1, CONTROLLER),
            10 => self.network.block(CONTROLLER, node + 1),
            11 => {
                let other = self.random.index(self.nodes.len());
                self.network.block(node + 1, other + 1);
            }
            12 => self.split(),
            13 => self.nodes[node].frozen_until = self.now + time,
            14 => self.kill_agent(node, time),
            15 => self.reboot(node, time),
            16 => self.lose_memory(node),
            17 => self.controller_frozen_until = self.now + time,
            18 => self.stop_controller(),
            19 => self.restart_controller(),
            20 => self.drain(node),
            _ => {
                self.network.loss = self.random.below(30);
                self.network.mess = self.random.below(30);
            }
        }
    }

    /// All is well again.
    pub(crate) fn heal(&mut self) {
        self.network.heal();
        (self.network.loss, self.network.mess) = (0, 0);
        if self.controller.is_none() {
            self.start_controller();
        }
        let names: Vec<String> = self.nodes.iter().map(|node| node.name.clone()).collect();
        for name in names {
            let controller = self.controller.as_mut();
            controller.and_then(|it| it.planner.undrain(&name));
        }
    }

    fn isolate(&mut self, node: usize) {
        for place in 0..=self.nodes.len() {
            self.network.block(node + 1, place);
            self.network.block(place, node + 1);
        }
    }

    /// Two parts that do not hear each other; the controller is in one of them.
    fn split(&mut self) {
        let one: Vec<usize> = (0..=self.nodes.len())
            .filter(|_| self.random.percent(50))
            .collect();
        for place in 0..=self.nodes.len() {
            for other in one.iter().filter(|_| !one.contains(&place)) {
                self.network.block(place, *other);
                self.network.block(*other, place);
            }
        }
    }

    fn kill_agent(&mut self, node: usize, time: u64) {
        let now = self.now;
        let node = &mut self.nodes[node];
        node.dead_until = now + time;
        node.agent = Agent::default();
        node.witness.restart(now + time);
    }

    fn reboot(&mut self, index: usize, time: u64) {
        let up = self.now + time;
        let (incarnation, instance) = (self.random.next() | 1, self.random.next() | 1);
        let node = &mut self.nodes[index];
        let rate = node.kernel.rate();
        node.kernel = Kernel::boot(up, rate, incarnation);
        node.agent = Agent::default();
        node.witness = Witness::new(instance);
        node.off_until = up;
        node.dead_until = up + time / 4;
    }

    fn lose_memory(&mut self, node: usize) {
        let fresh = self.random.next() | 1;
        let time = 10 + self.random.below(500);
        self.kill_agent(node, time);
        let keeps_name = self.rules == Rules::MemoryLossUnnoticed;
        let witness = &mut self.nodes[node].witness;
        *witness = Witness::new(if keeps_name { witness.instance } else { fresh });
    }

    /// With other settings sometimes.
    fn restart_controller(&mut self) {
        self.stop_controller();
        if let Fencing::Quorum {
            alone, witnesses, ..
        } = self.fencing
        {
            let lease = Duration::from_millis([1_400, 1_400, 3_000][self.random.index(3)]);
            self.fencing = Fencing::Quorum {
                lease,
                alone,
                witnesses,
            };
        }
        self.start_controller();
    }

    fn drain(&mut self, node: usize) {
        let name = self.nodes[node].name.clone();
        let drain = self.random.percent(50);
        if let Some(controller) = &mut self.controller {
            match drain {
                true => controller.planner.drain(&name),
                false => controller.planner.undrain(&name),
            };
        }
    }
}
