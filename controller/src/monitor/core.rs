//! The monitor itself.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use probe_ebpf::wire::probe::AGENT_UP;
use probe_user::keys::NodeKey;
use probe_user::session::{Event, ProbeSettings, Prober, SocketStats, TargetId};
use prometheus_client::metrics::histogram::Histogram;

use super::board::Cell;
use super::hearsay::Ask;
use super::leases::Leases;
use super::panel::Panel;
use super::{Board, NodeSpec, Notice, Reading, Record};
use crate::api::{self, Timestamp, milliseconds};
use crate::consumers::Consumers;
use crate::health::{Health, HealthSettings, Heard, NodeIndex, Output, State};

/// How nodes are probed and judged.
#[derive(Clone, Copy, Debug)]
pub struct MonitorSettings {
    /// How they are probed.
    pub probe: ProbeSettings,
    /// How they are judged.
    pub health: HealthSettings,
    /// Whether others can be asked about nodes.
    pub ask: bool,
}

/// Where what is found out goes, beside the notices.
#[derive(Clone, Debug)]
pub struct Outlets {
    /// What is known of every node.
    pub board: Arc<Board>,
    /// Who is told of changes.
    pub consumers: Consumers,
    /// All round-trip times, seconds.
    pub round_trips: Histogram,
}

/// Probes the nodes that interest anyone, and keeps their states.
pub struct Monitor {
    pub(super) settings: MonitorSettings,
    pub(super) prober: Prober,
    pub(super) health: Health,
    pub(super) slots: Vec<Option<Slot>>,
    pub(super) free: Vec<NodeIndex>,
    pub(super) names: HashMap<String, NodeIndex>,
    /// What an earlier controller recorded of nodes whose monitoring has not begun yet.
    pub(super) records: HashMap<String, Record>,
    pub(super) leases: Leases,
    pub(super) panel: Panel,
    pub(super) asks: VecDeque<Ask>,
    pub(super) board: Arc<Board>,
    pub(super) consumers: Consumers,
    round_trips: Histogram,
    pub(super) notices: VecDeque<Notice>,
    transitions: u64,
    pub(super) unsettled: usize,
    /// Whether it is still to be told that every node has settled.
    pub(super) settling: bool,
}

pub(super) struct Slot {
    pub(super) spec: NodeSpec,
    pub(super) cell: Cell,
    /// The keys that the node is known to hold; none: nobody has said.
    pub(super) held: Vec<NodeKey>,
    pub(super) monitored: bool,
    /// It has answered, or is decided otherwise.
    pub(super) settled: bool,
}

impl Monitor {
    /// Monitors nothing yet. `records` are an earlier controller's; `seed` is [`Prober::new`]'s.
    pub fn new(
        settings: MonitorSettings,
        seed: u64,
        records: HashMap<String, Record>,
        outlets: Outlets,
    ) -> Self {
        let Outlets {
            board,
            consumers,
            round_trips,
        } = outlets;
        Self {
            settings,
            prober: Prober::new(settings.probe, seed),
            health: Health::new(settings.health),
            slots: Vec::new(),
            free: Vec::new(),
            names: HashMap::new(),
            records,
            leases: Leases::default(),
            panel: Panel::new(settings.health.timeout / 2),
            asks: VecDeque::new(),
            board,
            consumers,
            round_trips,
            notices: VecDeque::new(),
            transitions: 0,
            unsettled: 0,
            settling: true,
        }
    }

    /// The prober, to be run by whoever has a socket.
    pub fn prober(&mut self) -> &mut Prober {
        self.prober.entitle(self.leases.entitled());
        &mut self.prober
    }

    /// The next thing to report.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// Draws the conclusions from what the prober found. `socket` is what its sockets counted.
    pub fn digest(&mut self, now: Reading, socket: &SocketStats) {
        while let Some(event) = self.prober.poll_event() {
            self.handle_event(now, event);
        }
        self.board.set_prober(self.prober.stats(), socket);
    }

    fn handle_event(&mut self, now: Reading, event: Event) {
        match event {
            Event::Reply {
                target,
                at,
                round_trip,
                reply,
                from,
                newest,
            } => {
                let index = index_of(target);
                let Some(slot) = self.slot(index) else { return };
                slot.cell
                    .lock()
                    .note_reply(at, round_trip, from, &reply.answer, newest);
                self.round_trips.observe(round_trip.as_secs_f64());
                if newest {
                    let agent_up = reply.answer.flags & AGENT_UP != 0;
                    let incarnation = reply.answer.incarnation;
                    self.health.handle_reply(
                        index,
                        Heard {
                            at,
                            agent_up,
                            incarnation,
                        },
                    );
                } else {
                    self.health.handle_stale_reply(index, at);
                }
                self.panel.settle(index);
                self.settle(index);
                self.publish(now, index);
            }
            Event::Round {
                target,
                due,
                excused,
            } => {
                let index = index_of(target);
                self.health.handle_round(index, due, excused);
                self.publish(now, index);
            }
            Event::Lost { target, .. } => {
                if let Some(slot) = self.slot(index_of(target)) {
                    slot.cell.lock().note_loss();
                }
            }
        }
    }

    pub(super) fn slot(&self, index: NodeIndex) -> Option<&Slot> {
        self.slots.get(index.0 as usize)?.as_ref()
    }

    pub(super) fn slot_mut(&mut self, index: NodeIndex) -> Option<&mut Slot> {
        self.slots.get_mut(index.0 as usize)?.as_mut()
    }

    /// Shows what the health core concluded about a node.
    pub(super) fn publish(&mut self, now: Reading, index: NodeIndex) {
        while let Some(output) = self.health.poll_output() {
            self.handle_output(now, output);
        }
        if let (Some(slot), Some(node)) = (self.slot(index), self.health.node(index)) {
            let mut view = slot.cell.lock();
            view.reason = node.reason();
            view.path_down = node.is_path_down();
            view.kept_until = node.kept_until(self.settings.health.timeout);
        }
    }

    fn handle_output(&mut self, now: Reading, output: Output) {
        match output {
            Output::Changed {
                node: index,
                at,
                from,
                to,
                silence,
                heard,
                packet,
            } => {
                self.settle(index);
                if to.state == State::Unreachable {
                    self.panel.settle(index);
                }
                let Some(slot) = self.slot(index) else { return };
                let node = slot.spec.name.clone();
                let mut view = slot.cell.lock();
                view.state = to.state;
                view.reason = to.reason;
                view.since = now.wall;
                drop(view);
                self.consumers.tell(&node);
                self.transitions += 1;
                self.notices.push_back(Notice::Transition(api::Transition {
                    sequence: self.transitions,
                    at: Timestamp(now.wall),
                    node,
                    from,
                    to: to.state,
                    reason: to.reason,
                    silence_ms: milliseconds(silence),
                    last_reply: heard.map(|at| Timestamp(now.wall_at(at))),
                    last_tunnel_packet: packet.map(|at| Timestamp(now.wall_at(at))),
                    lag_ms: milliseconds(now.instant.saturating_duration_since(at)),
                }));
            }
            Output::Announce { node, lasted } => {
                if let Some(node) = self.name(node) {
                    self.notices.push_back(Notice::Announced { node, lasted });
                }
            }
            Output::PathDown { node, silence } => {
                let by = self.witnesses_of(node);
                self.tell_of_path(node, true, |node| Notice::PathDown { node, silence, by });
            }
            Output::PathBack { node, silence } => {
                self.tell_of_path(node, false, |node| Notice::PathBack { node, silence });
            }
            Output::OnlyTunnels { node, silence } => self.tell_of_tunnels(now, node, silence),
            Output::Doubted { node, at, unheard } => self.ask_about(node, at, unheard),
            Output::Reincarnated { node, from, to } => {
                if let Some(node) = self.name(node) {
                    self.notices
                        .push_back(Notice::Reincarnated { node, from, to });
                }
            }
        }
    }

    /// The way to a node fails, or works again.
    fn tell_of_path(
        &mut self,
        index: NodeIndex,
        down: bool,
        notice: impl FnOnce(String) -> Notice,
    ) {
        let Some(slot) = self.slot(index) else { return };
        slot.cell.lock().path_down = down;
        let node = slot.spec.name.clone();
        self.consumers.tell(&node);
        self.notices.push_back(notice(node));
    }

    /// Nothing but its tunnels says that a node works.
    fn tell_of_tunnels(&mut self, now: Reading, index: NodeIndex, silence: Duration) {
        let timeout = self.settings.health.timeout;
        let known = self.health.node(index);
        let until = known.and_then(|node| node.kept_until(timeout));
        let (Some(slot), Some(until)) = (self.slot(index), until) else {
            return;
        };
        let node = slot.spec.name.clone();
        let mut view = slot.cell.lock();
        view.kept_until = Some(until);
        let by = view.tunnel_packet.as_ref().map(|it| it.by.clone());
        drop(view);
        self.consumers.tell(&node);
        self.notices.push_back(Notice::OnlyTunnels {
            node,
            silence,
            by: by.unwrap_or_default(),
            left: until.saturating_duration_since(now.instant),
        });
    }

    fn name(&self, index: NodeIndex) -> Option<String> {
        self.slot(index).map(|slot| slot.spec.name.clone())
    }

    /// Takes note that a node has answered or is decided otherwise.
    pub(super) fn settle(&mut self, index: NodeIndex) {
        let Some(slot) = self.slot_mut(index).filter(|slot| !slot.settled) else {
            return;
        };
        slot.settled = true;
        self.unsettled -= 1;
        self.tell_if_settled();
    }

    pub(super) fn tell_if_settled(&mut self) {
        if self.settling && self.unsettled == 0 {
            self.settling = false;
            self.notices.push_back(Notice::Settled);
        }
    }
}

pub(super) fn target_of(node: NodeIndex) -> TargetId {
    TargetId(node.0)
}

fn index_of(target: TargetId) -> NodeIndex {
    NodeIndex(target.0)
}
