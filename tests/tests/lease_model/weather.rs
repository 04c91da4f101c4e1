//! Partitions and freezes while a schedule runs: which paths are open, and which processes run.
//!
//! They add nothing that delay could not do (a letter on a path that is cut takes long, a frozen process
//! does nothing for a while), but make what belongs together happen together.

use crate::{
    letter::{Letter, Prober},
    search::{Fault, Random},
    world::{CONTROLLERS, NODES},
};

/// Ends of paths: nodes, then controllers, then the store.
const ENDS: usize = NODES + CONTROLLERS + 1;
const STORE: usize = ENDS - 1;

/// The end that is a controller.
pub(crate) const fn controller(index: usize) -> usize {
    NODES + index
}

/// Paths and processes.
pub(crate) struct Weather {
    /// From, to.
    cut: [[bool; ENDS]; ENDS],
    frozen: [bool; ENDS],
}

impl Weather {
    /// Where partitions are asked for, some paths may be cut for a start.
    pub(crate) fn new(faults: &[Fault], random: &mut Random) -> Self {
        let density = if faults.contains(&Fault::Partition) {
            [0, 15, 40][random.index(3)]
        } else {
            0
        };
        let cut = std::array::from_fn(|_| {
            std::array::from_fn(|to| density > 0 && to != STORE && random.chance(density))
        });
        Self {
            cut,
            frozen: [false; ENDS],
        }
    }

    /// Cuts an end off, in one direction or both, from one other end or from all; or heals everything.
    pub(crate) fn partition(&mut self, random: &mut Random) {
        if random.chance(40) {
            self.cut = [[false; ENDS]; ENDS];
            return;
        }
        let end = random.index(STORE);
        let from_one = random.chance(70).then(|| random.index(ENDS));
        let (out, back) = [(true, true), (true, false), (false, true)][random.index(3)];
        for other in (0..ENDS).filter(|other| from_one.is_none_or(|one| one == *other)) {
            self.cut[end][other] |= out;
            self.cut[other][end] |= back;
        }
    }

    /// Freezes a process, or thaws it.
    pub(crate) fn freeze(&mut self, random: &mut Random) {
        let end = random.index(STORE);
        self.frozen[end] = !self.frozen[end] && random.chance(50);
    }

    /// Whether the processes of an end run.
    pub(crate) const fn runs(&self, end: usize) -> bool {
        !self.frozen[end]
    }

    /// Whether the path of a letter is open.
    pub(crate) fn open(&self, letter: &Letter) -> bool {
        let prober = |prober: Prober| match prober {
            Prober::Controller(index) => controller(index),
            Prober::Witness(host) => host,
        };
        let (from, to) = match letter {
            Letter::Probe { from, to, .. } => (prober(*from), *to),
            Letter::Reply { to, from, .. } => (*from, prober(*to)),
            Letter::Ask { from, to, .. } => (controller(*from), to.host()),
            Letter::Promise { to, promise, .. } => (promise.instance.host(), controller(*to)),
            Letter::Push { from, to, .. } => (controller(*from), *to),
            Letter::Confirm { to, from, .. } => (*from, controller(*to)),
            Letter::Write { from, .. } | Letter::Lock { from, .. } => (controller(*from), STORE),
            Letter::Written { to, .. } | Letter::Locked { to, .. } => (STORE, controller(*to)),
        };
        from == to || !self.cut[from][to]
    }
}
