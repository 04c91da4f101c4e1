//! What others say of a node that the controller does not hear.
//!
//! From half the timeout on a silent node is doubted: others are asked about it. Whoever hears it
//! keeps it in its state, as a reply would; the timeout counts from when it was last heard by anyone.
//! Nobody's silence, refusal or slowness changes anything: then the controller's own silence decides.

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
}

/// Evidence, and when there was reason for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Testimony {
    pub(super) at: Instant,
    pub(super) evidence: Evidence,
}

impl Health {
    /// Somebody noticed something of `node` at `at`, or later than that.
    pub fn handle_evidence(&mut self, node: NodeIndex, at: Instant, evidence: Evidence) {
        if let Some(known) = self.node_mut(node) {
            known.testify(Testimony { at, evidence });
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
        let begins = silence > timeout && !known.path_down;
        known.path_down |= begins;
        if begins {
            self.outputs.push_back(Output::PathDown { node, silence });
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
