//! The states of all nodes.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::node::{Node, Recorded};
use super::{ProbeOutcome, Reason, State, Verdict, judge};

/// A node, as a small number that the caller chooses; memory grows with the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeIndex(pub u32);

/// By what nodes are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthSettings {
    /// A longer silence makes a node UNREACHABLE; zero: nothing is monitored and every node is
    /// AVAILABLE.
    pub timeout: Duration,
    /// UNAVAILABLE for longer becomes UNREACHABLE; zero: never.
    pub unavailable_timeout: Duration,
    /// UNAVAILABLE for so long is announced to people.
    pub announce_after: Duration,
}

/// What a reply tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// When it arrived.
    pub at: Instant,
    /// Whether the agent is up.
    pub agent_up: bool,
    /// The node's incarnation.
    pub incarnation: u64,
}

/// What follows from what happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// A node's state changed.
    Changed {
        /// Which node.
        node: NodeIndex,
        /// As of when it was decided: a reply's arrival, or when a round was due.
        at: Instant,
        /// The state before.
        from: State,
        /// The state now, and why.
        to: Verdict,
        /// How long the node had been silent until then, without excused time.
        silence: Duration,
        /// When its last reply arrived.
        heard: Option<Instant>,
        /// When the last packet from its tunnels was received that counted in its favour.
        packet: Option<Instant>,
    },
    /// A node has been UNAVAILABLE for long enough to tell people.
    Announce {
        /// Which node.
        node: NodeIndex,
        /// For how long.
        lasted: Duration,
    },
    /// The controller has not heard a node for longer than the timeout, but others do: it keeps its
    /// state.
    PathDown {
        /// Which node.
        node: NodeIndex,
        /// For how long the controller has not heard it.
        silence: Duration,
    },
    /// The controller hears a node again that it had not heard for longer than the timeout, while
    /// others did.
    PathBack {
        /// Which node.
        node: NodeIndex,
        /// How long it had not heard it.
        silence: Duration,
    },
    /// Nobody has heard a node for longer than the timeout, but others receive packets from its
    /// tunnels: it keeps its state for up to one more timeout.
    OnlyTunnels {
        /// Which node.
        node: NodeIndex,
        /// For how long nobody has heard it.
        silence: Duration,
    },
    /// Nobody is known to have heard a node for half the timeout: others should be asked, now. Comes
    /// with every round, until it was heard or is UNREACHABLE.
    Doubted {
        /// Which node.
        node: NodeIndex,
        /// As of when.
        at: Instant,
        /// For how long nobody has heard it.
        unheard: Duration,
    },
    /// A node lost its kernel state, most likely in a reboot.
    Reincarnated {
        /// Which node.
        node: NodeIndex,
        /// Its incarnation before.
        from: u64,
        /// Its incarnation now.
        to: u64,
    },
}

/// The states of all monitored nodes.
#[derive(Debug)]
pub struct Health {
    pub(super) settings: HealthSettings,
    nodes: Vec<Option<Node>>,
    pub(super) outputs: VecDeque<Output>,
}

impl Health {
    /// Knows no node yet.
    pub fn new(settings: HealthSettings) -> Self {
        Self {
            settings,
            nodes: Vec::new(),
            outputs: VecDeque::new(),
        }
    }

    /// The node, if it is monitored.
    pub fn node(&self, node: NodeIndex) -> Option<&Node> {
        self.nodes.get(node.0 as usize)?.as_ref()
    }

    /// A node's state; UNKNOWN if it is not monitored.
    pub fn state(&self, node: NodeIndex) -> State {
        self.node(node).map_or(State::Unknown, Node::state)
    }

    /// What followed from what was handled, in order.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Monitoring of `node` begins, from what an earlier controller recorded of it if anything.
    /// A node that is monitored already stays as it is.
    pub fn begin(
        &mut self,
        now: Instant,
        node: NodeIndex,
        has_address: bool,
        recorded: Option<Recorded>,
    ) {
        let slot = node.0 as usize;
        if self.nodes.len() <= slot {
            self.nodes.resize(slot + 1, None);
        }
        if self.nodes[slot].is_some() {
            return;
        }
        let mut begun = Node::new(now, recorded);
        begun.announced =
            now.saturating_duration_since(begun.since) >= self.settings.announce_after;
        self.nodes[slot] = Some(begun);
        if self.disabled() {
            self.set(now, node, State::Available, Reason::MonitoringDisabled);
        } else if !has_address {
            self.handle_no_address(now, node);
        }
    }

    /// `node` is deleted or interests nobody any more: it is UNKNOWN and forgotten.
    pub fn end(&mut self, now: Instant, node: NodeIndex) {
        self.set(now, node, State::Unknown, Reason::NotMonitored);
        if let Some(slot) = self.nodes.get_mut(node.0 as usize) {
            *slot = None;
        }
    }

    /// `node` is probed at other addresses from now on; it keeps its state, and the new addresses
    /// get the whole timeout to answer.
    pub fn handle_new_addresses(&mut self, now: Instant, node: NodeIndex) {
        if let Some(node) = self.node_mut(node) {
            node.restart(now);
        }
    }

    /// `node` has no address left to probe.
    pub fn handle_no_address(&mut self, now: Instant, node: NodeIndex) {
        if !self.disabled() {
            self.set(now, node, State::Unreachable, Reason::NoAddress);
        }
    }

    /// An authentic reply of `node` arrived, from whichever of its addresses.
    pub fn handle_reply(&mut self, node: NodeIndex, heard: Heard) {
        if self.disabled() {
            return;
        }
        let Some(known) = self.node_mut(node) else {
            return;
        };
        let silence = known.silence(heard.at);
        known.hear(heard.at);
        let before = known.incarnation.replace(heard.incarnation);
        let same = before == Some(heard.incarnation);
        let restored = std::mem::take(&mut known.restored);
        // An earlier controller's determination about another incarnation is none about this one.
        let basis = if restored && !same {
            State::Unknown
        } else {
            known.state
        };
        if let Some(before) = before.filter(|_| !same) {
            let to = heard.incarnation;
            self.outputs.push_back(Output::Reincarnated {
                node,
                from: before,
                to,
            });
        }
        let outcome = ProbeOutcome::Reply {
            agent_up: heard.agent_up,
        };
        if let Some(verdict) = judge(basis, outcome, self.settings.timeout) {
            self.change(heard.at, node, verdict, silence);
        }
        self.watch_unavailable(heard.at, node);
        self.end_path_down(node, silence);
    }

    /// An authentic reply of `node` arrived whose word on agent and incarnation is out of date,
    /// since a later one has been handled already: a sign of life and no more.
    pub fn handle_stale_reply(&mut self, node: NodeIndex, at: Instant) {
        let Some(known) = self.node_mut(node) else {
            return;
        };
        let silence = known.silence(at);
        known.hear(at);
        self.end_path_down(node, silence);
    }

    /// A round of probes to `node` begins at `due`. `excused` is the part of the time since its
    /// last round that says nothing about the node, since the prober did not probe.
    pub fn handle_round(&mut self, node: NodeIndex, due: Instant, excused: Duration) {
        if self.disabled() {
            return;
        }
        let Some(known) = self.node_mut(node) else {
            return;
        };
        known.excuse(due, excused);
        let (state, silence) = (known.state, known.silence(due));
        let outcome = known.unanswered(due);
        if let Some(verdict) = judge(state, outcome, self.settings.timeout) {
            self.change(due, node, verdict, silence);
        }
        self.watch_unavailable(due, node);
        self.doubt(due, node);
    }

    fn disabled(&self) -> bool {
        self.settings.timeout.is_zero()
    }

    pub(super) fn node_mut(&mut self, node: NodeIndex) -> Option<&mut Node> {
        self.nodes.get_mut(node.0 as usize)?.as_mut()
    }

    /// What becomes of UNAVAILABLE by lasting. Asked at every reply and round, so no timer is
    /// needed, and as exact as the period.
    fn watch_unavailable(&mut self, now: Instant, node: NodeIndex) {
        let HealthSettings {
            unavailable_timeout: limit,
            announce_after,
            ..
        } = self.settings;
        let Some(known) = self.node_mut(node) else {
            return;
        };
        if known.state != State::Unavailable {
            return;
        }
        let lasted = now.saturating_duration_since(known.since);
        let silence = known.silence(now);
        if !known.announced && lasted >= announce_after {
            known.announced = true;
            self.outputs.push_back(Output::Announce { node, lasted });
        }
        if !limit.is_zero() && lasted > limit {
            let reason = Reason::UnavailableTooLong;
            self.change(
                now,
                node,
                Verdict {
                    state: State::Unreachable,
                    reason,
                },
                silence,
            );
        }
    }

    /// Changes a state for a reason that is not a probe's outcome.
    fn set(&mut self, now: Instant, node: NodeIndex, state: State, reason: Reason) {
        let silence = self
            .node(node)
            .map_or(Duration::ZERO, |known| known.silence(now));
        self.change(now, node, Verdict { state, reason }, silence);
    }

    fn change(&mut self, now: Instant, node: NodeIndex, to: Verdict, silence: Duration) {
        let Some(known) = self.node_mut(node) else {
            return;
        };
        let from = known.state;
        known.reason = to.reason;
        if from == to.state {
            return;
        }
        known.state = to.state;
        known.since = now;
        known.announced = false;
        known.path_down &= to.state != State::Unreachable;
        known.only_tunnels &= to.state != State::Unreachable;
        let (heard, packet) = (known.heard, known.last_packet());
        self.outputs.push_back(Output::Changed {
            node,
            at: now,
            from,
            to,
            silence,
            heard,
            packet,
        });
    }
}
