//! A witness: votes for the nodes of its duty that answer it, and keeps promises.

use std::collections::BTreeMap;
use std::time::Duration;

use controller::failover::Duty;
use probe_ebpf::lease::Ask;
use probe_ebpf::wire::probe::VOTE;
use probe_user::channel::{Heard, WitnessReport};

pub(crate) struct Witness {
    /// Durable, like the floors and the duty.
    pub(crate) instance: u64,
    floors: BTreeMap<String, u64>,
    duty: Option<Duty>,
    /// Of this process: the newest reply of each node.
    heard: BTreeMap<String, Reply>,
    /// When the newest reply came that was echoed in a vote under any floor, and under a lower floor
    /// than the stored one.
    voted: BTreeMap<String, u64>,
    voted_below: BTreeMap<String, u64>,
    /// When this process began, unless the memory is as new.
    started: Option<u64>,
}

#[derive(Clone, Copy)]
struct Reply {
    at: u64,
    incarnation: u64,
    time: u64,
}

impl Witness {
    pub(crate) const fn new(instance: u64) -> Self {
        Self {
            instance,
            floors: BTreeMap::new(),
            duty: None,
            heard: BTreeMap::new(),
            voted: BTreeMap::new(),
            voted_below: BTreeMap::new(),
            started: None,
        }
    }

    /// Its process starts again.
    pub(crate) fn restart(&mut self, now: u64) {
        self.heard.clear();
        self.voted.clear();
        self.voted_below.clear();
        self.started = Some(now);
    }

    /// `None`: it is refused.
    pub(crate) fn handle_duty(
        &mut self,
        now: u64,
        rate: u64,
        duty: Duty,
        keeps_promises: bool,
    ) -> Option<WitnessReport> {
        let is_older = self
            .duty
            .as_ref()
            .is_some_and(|it| duty.version < it.version);
        if is_older || duty.instance.is_some_and(|meant| meant != self.instance) {
            return None;
        }
        let learns = duty.instance.is_none();
        let told: BTreeMap<String, u64> = duty
            .watched
            .iter()
            .map(|(node, floor)| (node.to_string(), *floor))
            .collect();
        if !learns {
            for (node, floor) in &told {
                let stored = self.floors.entry(node.clone()).or_default();
                if keeps_promises && *stored < *floor {
                    *stored = *floor;
                    let voted = self.voted.get(node).copied().max(self.started);
                    self.voted_below.extend(voted.map(|at| (node.clone(), at)));
                }
            }
            self.duty = Some(duty);
        }
        let age = |at: u64| Duration::from_millis((now - at) * rate / 1000);
        let heard = told.iter().map(|(node, floor)| Heard {
            node: node.clone(),
            floor: if keeps_promises {
                self.floors.get(node).copied().unwrap_or(0)
            } else {
                *floor
            },
            heard_ago: self.heard.get(node).map(|it| age(it.at)),
            voted_ago: self
                .voted_below
                .get(node)
                .copied()
                .max(self.started)
                .map(age),
            ..Heard::default()
        });
        Some(WitnessReport {
            instance: self.instance,
            heard: heard.collect(),
        })
    }

    pub(crate) fn handle_reply(&mut self, now: u64, node: &str, incarnation: u64, time: u64) {
        let at = now;
        let reply = Reply {
            at,
            incarnation,
            time,
        };
        self.heard.insert(node.to_owned(), reply);
    }

    /// What it asks of each node with its next probe.
    pub(crate) fn probes(&mut self) -> Vec<(String, Ask)> {
        let Some(duty) = &self.duty else {
            return Vec::new();
        };
        let instance = self.instance;
        if duty.instance != Some(instance) {
            return Vec::new();
        }
        let lease_ms = duty.lease.as_millis() as u32;
        let watched = duty.watched.iter().map(|(node, _)| node.to_string());
        let probe = |node: String| {
            let heard = self.heard.get(&node);
            if let Some(heard) = heard {
                self.voted.insert(node.clone(), heard.at);
            }
            let ask = Ask {
                flags: heard.map_or(0, |_| VOTE.into()),
                lease_ms,
                floor: self.floors.get(&node).copied().unwrap_or(0),
                incarnation: heard.map_or(0, |it| it.incarnation),
                echoed_ns: heard.map_or(0, |it| it.time),
                witness: instance,
            };
            (node, ask)
        };
        watched.map(probe).collect()
    }
}
