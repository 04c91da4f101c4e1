//! The table of states: what a probe's outcome makes of a node.

use std::time::Duration;

use super::{Reason, State};

/// What a probe, or its absence, told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// The dataplane answered.
    Reply {
        /// What the answer says of the agent.
        agent_up: bool,
    },
    /// There is no answer to the last probe, and nobody has had one of any kind for so long.
    Silence(Duration),
    /// There is no answer to the last probe, and none of any kind for so long. Others have had one,
    /// which says that the node's lease is over.
    LeaseOver(Duration),
    /// There is no answer to the last probe, and nobody has had one of any kind; but others have
    /// received packets from the node's tunnels since then.
    TunnelsBusy {
        /// For how long nobody has had an answer.
        silence: Duration,
        /// How long ago the last such packet was received.
        packet: Duration,
        /// After how long a silence the node's lease is over; `None`: nobody extends it.
        lease: Option<Duration>,
    },
}

/// How many timeouts a node may be silent, however busy its tunnels are.
pub(super) const LONGEST: u32 = 2;

/// A state that follows from an outcome, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The new state.
    pub state: State,
    /// Why.
    pub reason: Reason,
}

/// Judges `outcome` for a node in `state`; `None`: nothing new is known. The verdict's state may
/// be the present one, with a newer reason.
pub fn judge(state: State, outcome: ProbeOutcome, timeout: Duration) -> Option<Verdict> {
    let (state, reason) = match outcome {
        ProbeOutcome::Reply { agent_up: true } => (State::Available, Reason::AgentUp),
        ProbeOutcome::Reply { agent_up: false } => {
            let state = match state {
                State::Available | State::Unavailable => State::Unavailable,
                // Never seen with its agent alive, or given up already: what it was used for may
                // live elsewhere by now.
                State::Unknown | State::Unreachable => State::Unreachable,
            };
            (state, Reason::AgentSilent)
        }
        ProbeOutcome::Silence(silence) if silence > timeout => {
            (State::Unreachable, Reason::NoReply)
        }
        ProbeOutcome::LeaseOver(silence) if silence > timeout => {
            (State::Unreachable, Reason::LeaseOver)
        }
        ProbeOutcome::TunnelsBusy {
            silence,
            packet,
            lease,
        } if silence > timeout => {
            if lease.is_some_and(|lease| silence > lease) {
                (State::Unreachable, Reason::LeaseOver)
            } else if packet > timeout || silence > timeout * LONGEST {
                (State::Unreachable, Reason::TunnelsOnly)
            } else {
                return None;
            }
        }
        ProbeOutcome::Silence(_)
        | ProbeOutcome::LeaseOver(_)
        | ProbeOutcome::TunnelsBusy { .. } => return None,
    };
    Some(Verdict { state, reason })
}
