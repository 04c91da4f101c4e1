//! What others say of a node that the controller does not hear.
//!
//! From half the timeout on a silent node is doubted: others are asked about it. Whoever hears it
//! keeps it in its state, as a reply would; the timeout counts from when it was last heard by anyone.
//! Nobody's silence, refusal or slowness changes anything: then the controller's own silence decides.
//!
//! Packets that others receive from the tunnels of a node that nobody hears say that it forwards
//! something, not that it can be relied on: they win it one more timeout at most. Only packets count
//! that came when it had been silent for half the timeout already, so that a node that is cut off
//! while its tunnels are busy is UNREACHABLE as soon as any other.

use std::time::{Duration, Instant};

use super::core::Health;
use super::{NodeIndex, Output, State};

/// What somebody else noticed of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// It answered somebody else's probe.
    Answered {
        /// Its lease has run out, so that its kernel lets nothing leave from its egress IPs: it is as
        /// good as gone, and nothing that was said before changes that. Never so of a node whose
        /// lease nobody extends.
        lease_over: bool,
    },
    /// A packet came from one of its tunnels.
    TunnelPacket {
        /// After how long a silence its lease is over; `None`: nobody extends it.
        lease: Option<Duration>,
    },
}

/// It answered somebody else's probe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Testimony {
    pub(super) at: Instant,
    pub(super) lease_over: bool,
}

impl Health {
    /// Somebody noticed something of `node` at `at`, or later than that.
    pub fn handle_evidence(&mut self, node: NodeIndex, at: Instant, evidence: Evidence) {
        let timeout = self.settings.timeout;
        let Some(known) = self.node_mut(node) else {
            return;
        };
        match evidence {
            Evidence::Answered { lease_over } => known.testify(Testimony { at, lease_over }),
            Evidence::TunnelPacket { lease } => known.note_packet(at, lease, timeout),
        }
    }

    /// What is to be done about a silence that makes no node UNREACHABLE. Asked at every round.
    pub(super) fn doubt(&mut self, now: Instant, node: NodeIndex) {
        let timeout = self.settings.timeout;
        let Some(known) = self.node_mut(node) else {
            return;
        };
        if known.state == State::Unreachable {
            return;
        }
        let (silence, unheard) = (known.silence.lasted(now), known.unheard.lasted(now));
        let only_tunnels = unheard > timeout;
        let path_fails = silence > timeout && !only_tunnels;
        let path_begins = path_fails && !known.path_down;
        let tunnels_begin = only_tunnels && !known.only_tunnels;
        (known.path_down, known.only_tunnels) = (path_fails, only_tunnels);
        if path_begins {
            self.outputs.push_back(Output::PathDown { node, silence });
        }
        if tunnels_begin {
            self.outputs.push_back(Output::OnlyTunnels {
                node,
                silence: unheard,
            });
        }
        if unheard >= timeout / 2 {
            let doubt = Output::Doubted {
                node,
                at: now,
                unheard,
            };
            self.outputs.push_back(doubt);
        }
    }

    /// The controller hears `node` again, after so long.
    pub(super) fn end_path_down(&mut self, node: NodeIndex, silence: Duration) {
        if let Some(known) = self.node_mut(node)
            && std::mem::take(&mut known.path_down)
        {
            self.outputs.push_back(Output::PathBack { node, silence });
        }
    }
}
