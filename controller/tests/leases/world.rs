//! All of it together, and what must never be.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Instant;

use controller::failover::{Fencing, Gateway, NodeConfig, Pool, Record};

use crate::agent::Agent;
use crate::controller::{Controller, PERIOD, Told};
use crate::kernel::Kernel;
use crate::network::{Letter, Network, Place, Sent};
use crate::random::Random;
use crate::witness::Witness;

/// How far time goes at once, ms.
const TICK: u64 = 10;
/// The controller's own place in the network.
pub(crate) const CONTROLLER: Place = 0;
const POOL: [&str; 2] = ["10.0.0.1", "10.0.0.2"];

/// What of the rules is in force. Without one of them there are two owners sometimes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rules {
    #[default]
    All,
    /// Kernels take no notice of floors.
    FloorsUnheeded,
    /// Witnesses say that they keep a floor, and do not.
    PromisesBroken,
    /// Witnesses that have lost their memory go on as who they were.
    MemoryLossUnnoticed,
}

pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) kernel: Kernel,
    pub(crate) agent: Agent,
    pub(crate) witness: Witness,
    /// Until when it is switched off, its agent's process is dead, or frozen.
    pub(crate) off_until: u64,
    pub(crate) dead_until: u64,
    pub(crate) frozen_until: u64,
    /// What a frozen process has not read yet.
    inbox: Vec<Sent>,
}

impl Node {
    const fn is_on(&self, now: u64) -> bool {
        self.off_until <= now
    }

    const fn acts(&self, now: u64) -> bool {
        self.is_on(now) && self.dead_until <= now && self.frozen_until <= now
    }
}

pub(crate) struct World {
    pub(crate) rules: Rules,
    pub(crate) random: Random,
    pub(crate) now: u64,
    pub(crate) network: Network,
    pub(crate) nodes: Vec<Node>,
    /// `None`: it does not run.
    pub(crate) controller: Option<Controller>,
    pub(crate) controller_frozen_until: u64,
    pub(crate) fencing: Fencing,
    inbox: Vec<Sent>,
    processes: u64,
    store: Option<Record>,
    origin: Instant,
    /// How often another node began to pass an address.
    pub(crate) moves: u64,
    /// How often an address stayed after all.
    pub(crate) aborted: u64,
    passing: BTreeMap<IpAddr, usize>,
    /// What must never be, if it has been.
    pub(crate) two_owners: Option<String>,
}

impl World {
    /// So many nodes, the first three of which may own addresses.
    pub(crate) fn new(seed: u64, nodes: usize, fencing: Fencing, rules: Rules) -> Self {
        let mut random = Random::new(seed);
        let node = |index| Node {
            name: format!("n{index}"),
            // Rates differ from the controller's by less than 1 %.
            kernel: Kernel::boot(0, 991 + random.below(19), random.next() | 1),
            agent: Agent::default(),
            witness: Witness::new(random.next() | 1),
            off_until: 0,
            dead_until: 0,
            frozen_until: 0,
            inbox: Vec::new(),
        };
        let nodes = (1..=nodes).map(node).collect();
        Self {
            rules,
            random,
            now: 0,
            network: Network::new(),
            nodes,
            controller: None,
            controller_frozen_until: 0,
            fencing,
            inbox: Vec::new(),
            processes: 0,
            store: None,
            origin: Instant::now(),
            moves: 0,
            aborted: 0,
            passing: BTreeMap::new(),
            two_owners: None,
        }
    }

    fn addresses() -> [IpAddr; 2] {
        POOL.map(|text| text.parse().unwrap())
    }

    pub(crate) fn start_controller(&mut self) {
        let gateway = Gateway {
            name: "gw".to_owned(),
            selector: BTreeMap::from([("egress".to_owned(), "yes".to_owned())]).into(),
            pool: Pool::parse(&POOL).unwrap(),
            defaults: Vec::new(),
            cluster_default: false,
            sources: Vec::new(),
            except: Vec::new(),
            interface: None,
            routed: false,
            max_per_node: None,
        };
        let node = |(index, node): (usize, &Node)| {
            let labels = match index < 3 {
                true => BTreeMap::from([("egress".to_owned(), "yes".to_owned())]),
                false => BTreeMap::new(),
            };
            let addresses = Vec::new();
            (node.name.clone(), NodeConfig { labels, addresses })
        };
        let nodes: BTreeMap<_, _> = self.nodes.iter().enumerate().map(node).collect();
        self.processes += 1;
        self.inbox.clear();
        self.controller = Some(Controller::start(
            self.origin,
            self.now,
            self.processes,
            self.fencing,
            self.store.as_ref(),
            vec![gateway],
            &nodes,
        ));
    }

    /// The controller dies; what it was recording may be recorded or not.
    pub(crate) fn stop_controller(&mut self) {
        let unfinished = self.controller.take().and_then(|mut it| it.unfinished());
        if let Some(record) = unfinished.filter(|_| self.random.percent(50)) {
            self.store = Some(record);
        }
    }

    /// So long passes.
    pub(crate) fn pass(&mut self, time: u64) {
        let until = self.now + time;
        while self.now < until {
            self.now += TICK;
            while let Some(sent) = self.network.deliver(self.now) {
                self.receive(sent);
                self.check();
            }
            self.run_nodes();
            self.run_controller();
            self.check();
        }
    }

    fn send(&mut self, from: Place, to: Place, letter: Letter, process: u64) {
        let sent = Sent {
            from,
            to,
            letter,
            process,
        };
        self.network.send(&mut self.random, self.now, sent);
    }

    fn receive(&mut self, sent: Sent) {
        if sent.to == CONTROLLER {
            match self.controller_frozen_until > self.now {
                true => self.inbox.push(sent),
                false => self.tell_controller(sent),
            }
            return;
        }
        let node = &mut self.nodes[sent.to - 1];
        if !node.is_on(self.now) {
            return;
        }
        if let Letter::Probe { ask } = &sent.letter {
            let heeds_floors = self.rules != Rules::FloorsUnheeded;
            node.kernel.consider(self.now, ask, heeds_floors);
            let reply = Letter::Reply {
                incarnation: node.kernel.assignment.incarnation,
                time: node.kernel.clock(self.now),
                agent_up: node.acts(self.now),
            };
            return self.send(sent.to, sent.from, reply, sent.process);
        }
        if node.acts(self.now) {
            self.tell_node(sent);
        } else if node.dead_until <= self.now {
            node.inbox.push(sent);
        }
    }

    /// A node's agent reads a letter.
    fn tell_node(&mut self, sent: Sent) {
        let (from, name) = (sent.from, self.name(sent.from));
        let node = &mut self.nodes[sent.to - 1];
        match sent.letter {
            Letter::Push {
                incarnation,
                desired,
            } => {
                let kernel = &node.kernel;
                node.agent
                    .handle_push(kernel, incarnation, desired, sent.process);
            }
            Letter::Duty(duty) => {
                let version = duty.version;
                let keeps = self.rules != Rules::PromisesBroken;
                let rate = node.kernel.rate();
                let report = node.witness.handle_duty(self.now, rate, duty, keeps);
                let answer = match report {
                    Some(report) => Letter::Testified { version, report },
                    None => Letter::RefusedDuty,
                };
                self.send(sent.to, from, answer, sent.process);
            }
            Letter::Reply {
                incarnation, time, ..
            } => node
                .witness
                .handle_reply(self.now, &name, incarnation, time),
            Letter::Probe { .. }
            | Letter::Pushed(_)
            | Letter::Testified { .. }
            | Letter::RefusedDuty => {}
        }
    }

    fn name(&self, place: Place) -> String {
        match place {
            CONTROLLER => String::new(),
            place => self.nodes[place - 1].name.clone(),
        }
    }

    fn tell_controller(&mut self, sent: Sent) {
        let name = self.name(sent.from);
        let own = |controller: &&mut Controller| controller.process == sent.process;
        let Some(controller) = self.controller.as_mut().filter(own) else {
            return;
        };
        match sent.letter {
            Letter::Reply {
                incarnation,
                time,
                agent_up,
            } => controller.handle_reply(self.now, &name, incarnation, time, agent_up),
            Letter::Pushed(report) => controller.handle_pushed(self.now, &name, &report),
            Letter::Testified { version, report } => {
                controller.handle_testimony(self.now, &name, version, &report);
            }
            Letter::RefusedDuty => controller.planner.handle_refused_duty(&name),
            Letter::Probe { .. } | Letter::Push { .. } | Letter::Duty(_) => {}
        }
    }

    fn run_nodes(&mut self) {
        for index in 0..self.nodes.len() {
            let place = index + 1;
            if !self.nodes[index].acts(self.now) {
                continue;
            }
            for sent in std::mem::take(&mut self.nodes[index].inbox) {
                self.tell_node(sent);
            }
            let node = &mut self.nodes[index];
            if self.random.percent(40)
                && let Some((report, process)) = node.agent.step(&mut node.kernel)
            {
                self.send(place, CONTROLLER, Letter::Pushed(report), process);
            }
            if (self.now + 30 * place as u64) % PERIOD < TICK {
                for (name, ask) in self.nodes[index].witness.probes() {
                    self.probe(place, &name, ask, 0);
                }
            }
        }
    }

    fn probe(&mut self, from: Place, to: &str, ask: probe_ebpf::lease::Ask, process: u64) {
        let to = self.nodes.iter().position(|node| node.name == to);
        if let Some(to) = to {
            self.send(from, to + 1, Letter::Probe { ask }, process);
        }
    }

    fn run_controller(&mut self) {
        if self.controller_frozen_until > self.now {
            return;
        }
        for sent in std::mem::take(&mut self.inbox) {
            self.tell_controller(sent);
        }
        let Some(mut controller) = self.controller.take() else {
            return;
        };
        let process = controller.process;
        if self.now % PERIOD < TICK {
            for node in self
                .nodes
                .iter()
                .map(|node| node.name.clone())
                .collect::<Vec<_>>()
            {
                let ask = controller.probe(&node);
                self.probe(CONTROLLER, &node, ask, process);
            }
        }
        if self.now.is_multiple_of(2 * TICK) {
            for told in controller.run(&mut self.random, self.now, &mut self.store) {
                let (name, letter) = match told {
                    Told::Push(node, incarnation, desired) => {
                        let push = Letter::Push {
                            incarnation,
                            desired,
                        };
                        (node, push)
                    }
                    Told::Duty(node, duty) => (node, Letter::Duty(duty)),
                };
                let place = self.nodes.iter().position(|node| node.name == name);
                if let Some(index) = place {
                    self.send(CONTROLLER, index + 1, letter, process);
                }
            }
        }
        self.aborted += std::mem::take(&mut controller.aborted);
        self.controller = Some(controller);
    }

    /// The nodes that pass an address.
    pub(crate) fn owners(&self, address: IpAddr) -> Vec<usize> {
        let passes = |(_, node): &(usize, &Node)| {
            node.is_on(self.now) && node.kernel.passes(self.now, address)
        };
        let nodes = self.nodes.iter().enumerate();
        nodes.filter(passes).map(|(index, _)| index).collect()
    }

    fn check(&mut self) {
        for address in Self::addresses() {
            let owners = self.owners(address);
            if owners.len() > 1 {
                let seen = || format!("{owners:?} pass {address} at {} ms", self.now);
                self.two_owners.get_or_insert_with(seen);
            }
            if let Some(owner) = owners.first() {
                let before = self.passing.insert(address, *owner);
                self.moves += u64::from(before.is_some_and(|before| before != *owner));
            }
        }
    }

    /// Whether every address passes somewhere.
    pub(crate) fn is_served(&self) -> bool {
        Self::addresses()
            .into_iter()
            .all(|address| self.owners(address).len() == 1)
    }

    /// Why an address is where it is.
    pub(crate) fn explain(&self) -> String {
        let now = self.origin + std::time::Duration::from_millis(self.now);
        let planner = self.controller.as_ref().map(|it| &it.planner);
        let explain = |address: IpAddr| planner?.explain(now, &address.to_string());
        let explained = Self::addresses().into_iter().filter_map(explain);
        let sentences: Vec<String> = explained.map(|it| it.sentences.join(" ")).collect();
        sentences.join("\n")
    }
}
