//! A process of the controller: the planner, and small models of what is around it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use controller::clock::Reading;
use controller::failover::{
    DampingSettings, Duty, Event, Fencing, Gateway, GuardSettings, NodeConfig, Observation, Output,
    Planner, PlannerSettings, Record, Renewals,
};
use controller::health::State;
use probe_ebpf::lease::Ask;
use probe_ebpf::wire::probe::RENEW;
use probe_user::channel::{Report, WitnessReport};
use probe_user::egress::Desired;

use crate::random::Random;

pub(crate) const PERIOD: u64 = 200;
const TIMEOUT: u64 = 1_000;
/// What was told and not answered is told again after so long; what was answered, later.
const AGAIN: u64 = 300;
const REFRESH: u64 = 5_000;
/// How often it decides even if nothing was told it.
const LOOK: u64 = 80;

pub(crate) const fn settings(fencing: Fencing) -> PlannerSettings {
    PlannerSettings {
        enabled: true,
        failback: None,
        settle: Duration::from_millis(TIMEOUT + 2 * PERIOD),
        guard: GuardSettings {
            max_unreachable: 0.75,
            window: Duration::from_millis(TIMEOUT + PERIOD),
            silence: Duration::from_millis(750),
        },
        damping: DampingSettings {
            count: 0,
            window: Duration::from_secs(300),
            hold: Duration::from_secs(30),
            hold_max: Duration::from_secs(600),
        },
        fencing,
    }
}

pub(crate) struct Controller {
    pub(crate) planner: Planner,
    /// Answers to other processes do not reach it.
    pub(crate) process: u64,
    origin: Instant,
    started: u64,
    heard: BTreeMap<String, Heard>,
    /// What the prober does, and what it will do once it has been told.
    renewals: Option<Renewals>,
    telling: Vec<(u64, Renewals)>,
    echoed: BTreeMap<String, Instant>,
    /// A record that is being written.
    writing: Option<(u64, Record)>,
    pushes: BTreeMap<String, (Desired, u64)>,
    duties: BTreeMap<String, (Duty, u64)>,
    states: BTreeMap<String, (State, SystemTime)>,
    /// Something was handled since it last decided.
    news: bool,
    /// How many moves it has aborted.
    pub(crate) aborted: u64,
}

#[derive(Clone, Copy)]
struct Heard {
    at: u64,
    incarnation: u64,
    time: u64,
    agent_up: bool,
}

/// What it sends.
pub(crate) enum Told {
    Push(String, Option<u64>, Desired),
    Duty(String, Duty),
}

impl Controller {
    /// A new process, which starts from what is recorded.
    pub(crate) fn start(
        origin: Instant,
        now: u64,
        process: u64,
        fencing: Fencing,
        record: Option<&Record>,
        gateways: Vec<Gateway>,
        nodes: &BTreeMap<String, NodeConfig>,
    ) -> Self {
        let mut controller = Self {
            planner: Planner::new(settings(fencing)),
            process,
            origin,
            started: now,
            heard: BTreeMap::new(),
            renewals: None,
            telling: Vec::new(),
            echoed: BTreeMap::new(),
            writing: None,
            pushes: BTreeMap::new(),
            duties: BTreeMap::new(),
            states: BTreeMap::new(),
            news: true,
            aborted: 0,
        };
        let reading = controller.reading(now);
        if let Some(record) = record {
            controller.planner.restore(reading, record);
        }
        controller.planner.handle_gateways(reading, gateways);
        controller.planner.handle_nodes(reading, nodes.clone());
        controller.states = nodes
            .keys()
            .map(|name| (name.clone(), (State::Unknown, reading.wall)))
            .collect();
        controller
    }

    fn instant(&self, now: u64) -> Instant {
        self.origin + Duration::from_millis(now)
    }

    fn reading(&self, now: u64) -> Reading {
        Reading {
            instant: self.instant(now),
            wall: SystemTime::UNIX_EPOCH + Duration::from_millis(now),
        }
    }

    /// The record that was being written when the process died.
    pub(crate) fn unfinished(&mut self) -> Option<Record> {
        self.writing.take().map(|(_, record)| record)
    }

    pub(crate) fn handle_reply(
        &mut self,
        now: u64,
        node: &str,
        incarnation: u64,
        time: u64,
        agent_up: bool,
    ) {
        let heard = Heard {
            at: now,
            incarnation,
            time,
            agent_up,
        };
        self.heard.insert(node.to_owned(), heard);
    }

    pub(crate) fn handle_pushed(&mut self, now: u64, node: &str, report: &Report) {
        if let Some((desired, again)) = self.pushes.get_mut(node)
            && desired.epoch == report.applied_epoch
        {
            *again = now + REFRESH;
        }
        self.news = true;
        let reading = self.reading(now);
        let Report {
            applied_epoch,
            witness_version,
            addresses,
            ..
        } = report;
        self.planner
            .handle_report(reading, node, *applied_epoch, *witness_version, addresses);
    }

    pub(crate) fn handle_testimony(
        &mut self,
        now: u64,
        node: &str,
        version: u64,
        report: &WitnessReport,
    ) {
        if let Some((duty, again)) = self.duties.get_mut(node)
            && duty.version == version
        {
            *again = now + REFRESH;
        }
        self.news = true;
        let instant = self.instant(now);
        self.planner
            .handle_testimony(instant, node, version, report);
    }

    /// The probe to a node, and what it asks of its lease.
    pub(crate) fn probe(&mut self, node: &str) -> Ask {
        let heard = self.heard.get(node).copied();
        let mut ask = Ask {
            flags: 0,
            lease_ms: 0,
            floor: 0,
            incarnation: heard.map_or(0, |it| it.incarnation),
            echoed_ns: heard.map_or(0, |it| it.time),
            witness: 0,
        };
        if let (Some(renewals), Some(heard)) = (&self.renewals, heard)
            && let Some(floor) = renewals.floors.get(node)
            && self.instant(heard.at) >= renewals.since
        {
            ask.flags = RENEW.into();
            ask.lease_ms = renewals.lease.as_millis() as u32;
            ask.floor = *floor;
            let at = self.instant(heard.at);
            self.echoed.insert(node.to_owned(), at);
        }
        ask
    }

    /// Decides; returns what is sent. `store` is what is recorded.
    pub(crate) fn run(
        &mut self,
        random: &mut Random,
        now: u64,
        store: &mut Option<Record>,
    ) -> Vec<Told> {
        let reading = self.reading(now);
        if let Some((_, record)) = self.writing.take_if(|(due, _)| *due <= now) {
            let version = record.version;
            *store = Some(record);
            self.planner.handle_recorded(reading, version);
            self.news = true;
        }
        while let Some((due, _)) = self.telling.first()
            && *due <= now
        {
            self.renewals = Some(self.telling.remove(0).1);
            self.planner
                .handle_renewed(&std::mem::take(&mut self.echoed));
            self.news = true;
        }
        if std::mem::take(&mut self.news) || now.is_multiple_of(LOOK) {
            self.observe(now);
            self.planner.poll(reading);
        }
        while let Some(output) = self.planner.poll_output() {
            self.act(random, now, output);
        }
        self.tell(now)
    }

    fn observe(&mut self, now: u64) {
        let reading = self.reading(now);
        for (node, (state, since)) in &mut self.states {
            let heard = self.heard.get(node);
            let silent = now - heard.map_or(self.started, |it| it.at);
            let next = match (heard, *state) {
                (None, state) if silent <= TIMEOUT => state,
                _ if silent > TIMEOUT => State::Unreachable,
                (Some(heard), _) if heard.agent_up => State::Available,
                (Some(_), State::Available) => State::Unavailable,
                (Some(_), State::Unknown) => State::Unreachable,
                (_, state) => state,
            };
            if next != *state {
                (*state, *since) = (next, reading.wall);
            }
            let observation = Observation {
                state: *state,
                since: *since,
                heard: heard.map(|it| self.origin + Duration::from_millis(it.at)),
                path_down: false,
            };
            self.planner.handle_state(reading, node, observation);
        }
    }

    fn act(&mut self, random: &mut Random, now: u64, output: Output) {
        match output {
            Output::Record(record) => self.writing = Some((now + random.below(40), record)),
            Output::Apply { node, desired } => {
                self.pushes.insert(node.to_string(), (desired, now));
            }
            Output::Renew(renewals) => {
                let last = self.telling.last().map_or(0, |(due, _)| *due);
                let due = last.max(now + random.below(20));
                self.telling.push((due, renewals));
            }
            Output::Witness { node, duty } => {
                self.duties.remove(&*node);
                self.duties
                    .extend(duty.map(|duty| (node.to_string(), (duty, now))));
            }
            Output::Event(event) => {
                self.aborted += u64::from(matches!(event, Event::Aborted { .. }));
            }
        }
    }

    fn tell(&mut self, now: u64) -> Vec<Told> {
        let mut told = Vec::new();
        for (node, (desired, again)) in &mut self.pushes {
            if *again <= now {
                *again = now + AGAIN;
                let incarnation = self.heard.get(node).map(|it| it.incarnation);
                told.push(Told::Push(node.clone(), incarnation, desired.clone()));
            }
        }
        for (node, (duty, again)) in &mut self.duties {
            if *again <= now {
                *again = now + AGAIN;
                told.push(Told::Duty(node.clone(), duty.clone()));
            }
        }
        told
    }
}
