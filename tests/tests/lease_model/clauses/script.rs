//! The actions of which openings are made. What names no controller is the first one's doing, and what
//! names no gateway node or address concerns the first.

use crate::{search::Opening, world::Action};

pub(super) const RENEW: Action = Action::Probe {
    controller: 0,
    gateway: 0,
};
pub(super) const TAKE: Action = Action::Take {
    controller: 0,
    address: 0,
};
pub(super) const ABORT: Action = Action::Abort {
    controller: 0,
    address: 0,
};
/// On the second gateway node.
pub(super) const PLACE: Action = Action::Place {
    controller: 0,
    address: 0,
    gateway: 1,
};
pub(super) const SETTLE: Action = Action::Settle {
    controller: 0,
    gateway: 0,
};
/// To the longer L, or back.
pub(super) const CHANGE_LEASE: Action = Action::ChangeLease {
    controller: 0,
    gateway: 0,
};
pub(super) const NEW_PROCESS: Action = Action::RestartController { controller: 0 };
/// Of the letters that are on their way.
pub(super) const OLDEST_ARRIVES: Action = Action::Deliver { letter: 0 };
pub(super) const OLDEST_IS_LOST: Action = Action::Lose { letter: 0 };

pub(super) const fn wait(ms: u64) -> Action {
    Action::Advance { ms }
}

/// A witness votes for what it last heard of a gateway node, and hears it.
pub(super) const fn vote(witness: usize, gateway: usize) -> Action {
    Action::Vote { witness, gateway }
}

pub(super) const fn push(gateway: usize) -> Action {
    Action::Push {
        controller: 0,
        gateway,
    }
}

pub(super) const fn ask(witness: usize) -> Action {
    Action::Ask {
        controller: 0,
        gateway: 0,
        witness,
    }
}

pub(super) const fn replace(gateway: usize, slot: usize, by: usize) -> Action {
    Action::ChangeWitness {
        controller: 0,
        gateway,
        slot,
        by,
    }
}

/// The agent takes its next step.
pub(super) const fn step(gateway: usize) -> Action {
    Action::AgentStep { gateway }
}

pub(super) const fn restart(node: usize) -> Action {
    Action::Restart { node }
}

pub(super) const fn reboot(node: usize) -> Action {
    Action::Reboot { node }
}

pub(super) const fn lose_memory(node: usize) -> Action {
    Action::LoseMemory { node }
}

pub(super) const fn elect(controller: usize) -> Action {
    Action::Elect { controller }
}

pub(super) const fn claim(controller: usize) -> Action {
    Action::Claim { controller }
}

/// The agent is told of its assignment, and applies it; its confirmation is lost.
pub(super) fn applies_unheard(gateway: usize) -> Vec<Opening> {
    let applies = [push(gateway), OLDEST_ARRIVES]
        .into_iter()
        .chain([step(gateway); 6]);
    applies.chain([OLDEST_IS_LOST]).map(Opening::Only).collect()
}
