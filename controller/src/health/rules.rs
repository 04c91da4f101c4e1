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
}

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
        ProbeOutcome::Silence(_) | ProbeOutcome::LeaseOver(_) => return None,
    };
    Some(Verdict { state, reason })
}
