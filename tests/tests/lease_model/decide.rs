//! What a controller does of its own accord. When it does so is up to the search: the model has no health
//! states, any node may be taken for unreachable at any time.

use crate::{
    controller::{Controller, Election},
    letter::{Letter, Prober},
    record::Record,
    rules::{Clause, Rules},
    setup::Setup,
    time::Ns,
    witness::Instance,
    world::{Action, SLOTS, World},
};

/// Lets a controller decide. False if the rules do not allow it now.
pub(crate) fn decide(world: &mut World, setup: &Setup, rules: Rules, action: Action) -> bool {
    match action {
        Action::Probe {
            controller,
            gateway,
        } => {
            let request = world.controllers[controller].renew(rules, gateway);
            world.letters.push(Letter::Probe {
                from: Prober::Controller(controller),
                to: gateway,
                request,
            });
            true
        }
        Action::RestartController { controller } => {
            world.controllers[controller].restart(rules, setup.controllers == 1);
            true
        }
        Action::Elect { controller } => elect(world, rules, controller),
        Action::Claim { controller } => claim(world, rules, controller),
        Action::Ask {
            controller,
            gateway,
            witness,
        } => ask(world, rules, controller, gateway, witness),
        Action::Push {
            controller,
            gateway,
        } => push(world, rules, controller, gateway),
        _ => change(world, setup, rules, action),
    }
}

fn elect(world: &mut World, rules: Rules, controller: usize) -> bool {
    let lock = world.store.lock;
    let candidate = &mut world.controllers[controller];
    let now = candidate.clock.read(world.now);
    match candidate.elect(rules, controller as u8, now, lock) {
        Election::Wait => false,
        Election::Looked => true,
        Election::Request { renewals } => {
            let process = candidate.process;
            world.letters.push(Letter::Lock {
                from: controller,
                process,
                asked: now,
                renewals,
            });
            true
        }
    }
}

/// Rule 6: the term begins with a conditional write of term = recorded + 1.
fn claim(world: &mut World, rules: Rules, controller: usize) -> bool {
    let recorded = &world.store.record;
    let leader = &mut world.controllers[controller];
    let now = leader.clock.read(world.now);
    if !leader.may_claim(now) {
        return false;
    }
    let mut record = if rules.has(Clause::StartsFromRecord) {
        recorded.clone()
    } else {
        leader.record.clone().instead_of(recorded)
    };
    record.term = recorded.term + 1;
    if rules.has(Clause::ClaimsRecord) {
        write(world, controller, record);
    } else {
        leader.begin_term(rules, now, record);
    }
    true
}

/// Rule 3: asks a witness for a promise of the raised floor.
fn ask(world: &mut World, rules: Rules, controller: usize, gateway: usize, witness: usize) -> bool {
    let Some((decider, _)) = deciding(world, rules, controller) else {
        return false;
    };
    let floor = decider.views[gateway].floor;
    let Some(to) = decider.asked(gateway, witness) else {
        return false;
    };
    world.letters.push(Letter::Ask {
        from: controller,
        to,
        gateway,
        floor,
    });
    true
}

/// Rule 7: tells an agent what is recorded, and for which incarnation (the agent said so when connecting).
fn push(world: &mut World, rules: Rules, controller: usize, gateway: usize) -> bool {
    let Some((decider, _)) = deciding(world, rules, controller) else {
        return false;
    };
    let assignment = decider.record.nodes[gateway].assignment();
    let incarnation = world.nodes[gateway].kernel.incarnation;
    world.letters.push(Letter::Push {
        from: controller,
        to: gateway,
        incarnation,
        assignment,
    });
    true
}

/// Decisions that change the record.
fn change(world: &mut World, setup: &Setup, rules: Rules, action: Action) -> bool {
    let (Action::Take { controller, .. }
    | Action::Abort { controller, .. }
    | Action::Place { controller, .. }
    | Action::Settle { controller, .. }
    | Action::FirstSet { controller, .. }
    | Action::ChangeWitness { controller, .. }
    | Action::ChangeLease { controller, .. }) = action
    else {
        unreachable!("{action:?} is no decision");
    };
    let Some(record) = changed(world, setup, rules, controller, action) else {
        return false;
    };
    if !told_after_recording(rules, action) {
        world.controllers[controller].adopt(record.clone());
    }
    write(world, controller, record);
    true
}

/// Rule 5: whether agents are told of the change only when it is recorded.
const fn told_after_recording(rules: Rules, action: Action) -> bool {
    match action {
        Action::Place { .. } => rules.has(Clause::OwnersRecordedFirst),
        Action::ChangeWitness { .. } => rules.has(Clause::SetsRecordedFirst),
        Action::ChangeLease { .. } => rules.has(Clause::LeaseRecordedFirst),
        _ => true,
    }
}

fn changed(
    world: &mut World,
    setup: &Setup,
    rules: Rules,
    controller: usize,
    action: Action,
) -> Option<Record> {
    let instances: Vec<_> = world
        .nodes
        .iter()
        .map(|node| node.witness.instance)
        .collect();
    let (decider, now) = deciding(world, rules, controller)?;
    if decider.writing {
        return None;
    }
    match action {
        Action::Take { address, .. } => decider.taking(rules, address),
        Action::Abort { address, .. } => decider.aborting(rules, address),
        Action::Place {
            address, gateway, ..
        } => decider.placing(rules, now, address, gateway),
        Action::Settle { gateway, .. } => decider.settling(rules, now, gateway),
        Action::FirstSet { gateway, .. } => decider.changing_terms(rules, gateway, |terms| {
            setup.first_set(rules, gateway, terms)
        }),
        Action::ChangeWitness {
            gateway, slot, by, ..
        } => {
            let set = decider.record.nodes[gateway].newest().set;
            let set = changed_set(setup, rules, set, gateway, slot, instances[by])?;
            decider.changing_terms(rules, gateway, |terms| terms.set = set)
        }
        Action::ChangeLease { gateway, .. } => decider.changing_terms(rules, gateway, |terms| {
            let short = terms.lease_time == setup.lease_time;
            terms.lease_time = if short {
                3 * setup.lease_time
            } else {
                setup.lease_time
            };
        }),
        _ => unreachable!("{action:?} does not change the record"),
    }
}

/// The set with one witness removed if it is the one in the slot, else put into the slot, whoever was there.
fn changed_set(
    setup: &Setup,
    rules: Rules,
    mut set: [Option<Instance>; SLOTS],
    gateway: usize,
    slot: usize,
    by: Instance,
) -> Option<[Option<Instance>; SLOTS]> {
    if set[slot] == Some(by) {
        set[slot] = None;
        return (set.iter().flatten().count() > 1).then_some(set);
    }
    if set.contains(&Some(by)) || !setup.may_witness(rules, by.host(), gateway) {
        return None;
    }
    let free = set.iter().position(Option::is_none);
    let replaced = set[slot].take().is_some();
    let elsewhere = free.filter(|_| replaced && !rules.has(Clause::NewWitnessTakesOldSlot));
    set[elsewhere.unwrap_or(slot)] = Some(by);
    Some(set)
}

/// The controller, if it may decide now, and what its clock shows.
fn deciding(world: &mut World, rules: Rules, controller: usize) -> Option<(&mut Controller, Ns)> {
    let decider = &mut world.controllers[controller];
    let now = decider.clock.read(world.now);
    decider.decides(rules, now).then_some((decider, now))
}

fn write(world: &mut World, controller: usize, record: Record) {
    let writer = &mut world.controllers[controller];
    writer.writing = true;
    let process = writer.process;
    world.letters.push(Letter::Write {
        from: controller,
        process,
        record: Box::new(record),
    });
}
