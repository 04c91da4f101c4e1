//! The agent of a gateway node: applies what the controller pushes, in steps between which it can be frozen
//! or killed. All that it must remember is in the kernel's pinned maps.

use crate::{
    kernel::Kernel,
    record::Assignment,
    rules::{Clause, Rules},
};

/// A push that is being applied.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Job {
    /// Which controller waits for the confirmation.
    pub(crate) from: usize,
    pub(crate) assignment: Assignment,
    done: usize,
}

/// One step of applying an assignment. A crash may fall between any two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// Shut the guard of what goes, remove the addresses, flush conntrack.
    Remove,
    RemoveWitnesses,
    /// Add witnesses, set their number, and L.
    AddWitnesses,
    /// Configure what comes, and let the guard pass it under the lease.
    Open,
    WriteEpoch,
    Confirm,
}

/// Rule 7: removals first, the applied epoch last. Rule 3: old witnesses go before new ones come.
fn steps(rules: Rules) -> [Step; 6] {
    use Step::{AddWitnesses, Confirm, Open, Remove, RemoveWitnesses, WriteEpoch};
    let (first, second) = if rules.has(Clause::OldWitnessGoesFirst) {
        (RemoveWitnesses, AddWitnesses)
    } else {
        (AddWitnesses, RemoveWitnesses)
    };
    if !rules.has(Clause::EpochLast) {
        [WriteEpoch, Remove, first, second, Open, Confirm]
    } else if !rules.has(Clause::RemovalsFirst) {
        [first, second, Open, WriteEpoch, Remove, Confirm]
    } else {
        [Remove, first, second, Open, WriteEpoch, Confirm]
    }
}

/// Whether the agent takes a push: not for another incarnation, and not older than what it has applied.
pub(crate) fn takes(
    rules: Rules,
    kernel: &Kernel,
    incarnation: u16,
    assignment: &Assignment,
) -> bool {
    let offered = (assignment.epoch, assignment.terms.version);
    (incarnation == kernel.incarnation || !rules.has(Clause::RefusesOtherIncarnation))
        && (offered >= kernel.applied || !rules.has(Clause::RefusesOlder))
}

impl Job {
    /// Begins to apply an assignment.
    pub(crate) const fn new(from: usize, assignment: Assignment) -> Self {
        Self {
            from,
            assignment,
            done: 0,
        }
    }

    /// Takes the next step.
    pub(crate) fn step(&mut self, rules: Rules, kernel: &mut Kernel) -> Step {
        let step = steps(rules)[self.done];
        let Assignment { epoch, terms, .. } = self.assignment;
        let slot_of = |slot: u8| terms.set[usize::from(slot)];
        match step {
            Step::Remove => kernel.shut_removed(&self.assignment),
            Step::RemoveWitnesses => kernel
                .witnesses
                .retain(|(member, slot)| slot_of(*slot) == Some(*member)),
            Step::AddWitnesses => {
                for slot in 0..terms.set.len() as u8 {
                    if let Some(member) = slot_of(slot)
                        && !kernel.witnesses.contains(&(member, slot))
                    {
                        kernel.witnesses.push((member, slot));
                    }
                }
                kernel.set = (terms.version, terms.members().count());
                kernel.lease_time = terms.lease_time;
            }
            Step::Open => kernel.open_own(&self.assignment),
            Step::WriteEpoch => kernel.applied = (epoch, terms.version),
            Step::Confirm => {}
        }
        self.done += 1;
        step
    }
}
