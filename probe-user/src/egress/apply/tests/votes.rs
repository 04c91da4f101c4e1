//! Whose votes extend the node's lease.

use super::*;

fn set(version: u64, instances: &[u64]) -> Option<WitnessSet> {
    let instances = instances.to_vec();
    Some(WitnessSet { version, instances })
}

fn desired(epoch: u64, addresses: &[u8], witnesses: Option<WitnessSet>) -> Desired {
    let addresses = addresses.iter();
    Desired {
        epoch,
        addresses: addresses
            .map(|last| egress_ip(*last, Claim::Failover))
            .collect(),
        witnesses,
        ..Desired::default()
    }
}

fn told(desired: Desired) -> World {
    let mut world = World::new();
    world.applier.desire(world.now, &desired);
    world.run();
    world
}

fn is_set(step: &Step) -> bool {
    matches!(step, Step::Witnesses(_))
}

#[test]
fn a_set_comes_into_force_after_removals_and_before_additions() {
    let mut world = told(desired(1, &[100], set(1, &[7])));
    assert_eq!(world.applier.witness_version(), 1);
    world.log.clear();
    let next = desired(2, &[101], set(2, &[8]));
    world.applier.desire(world.now, &next);
    world.run();
    let removed = world.position(|step| matches!(step, Step::Remove { .. }));
    let put = world.position(is_set);
    let added = world.position(|step| matches!(step, Step::Add { .. }));
    let applied = world.position(|step| matches!(step, Step::Applied { .. }));
    assert!(removed < put && put < added && added < applied);
    assert_eq!(world.applier.witness_version(), 2);
}

#[test]
fn another_set_is_news_at_the_same_epoch_and_an_older_one_is_refused_there() {
    let world = told(desired(1, &[], set(2, &[7])));
    let is_news = |epoch, set| world.applier.is_news(&desired(epoch, &[], set));
    assert_eq!(is_news(1, set(3, &[8])), Ok(true));
    assert_eq!(is_news(1, set(2, &[7])), Ok(false));
    for older in [set(1, &[8]), None] {
        let error = is_news(1, older.clone()).unwrap_err();
        assert!(
            matches!(error, ApplyError::OlderWitnesses { .. }),
            "{error}"
        );
        assert_eq!(is_news(2, older), Ok(true));
    }
}

#[test]
fn an_agent_without_its_record_takes_no_older_set_either() {
    let applier = Applier::new(None, 5, 2);
    let error = applier.is_news(&desired(5, &[], set(1, &[7]))).unwrap_err();
    assert!(
        matches!(error, ApplyError::OlderWitnesses { .. }),
        "{error}"
    );
    assert_eq!(applier.is_news(&desired(5, &[], set(2, &[7]))), Ok(true));
}

#[test]
fn a_set_that_cannot_be_put_into_force_is_not_confirmed_and_is_tried_again() {
    let mut world = World::new();
    let wanted = desired(1, &[], set(1, &[7]));
    world.applier.desire(world.now, &wanted);
    let steps = world.applier.plan(world.now, &world.observed);
    assert!(!world.applier.is_tried());
    for step in &steps {
        match is_set(step) {
            true => world.applier.failed(world.now, step, "no".to_owned()),
            false => world.applier.done(world.now, step, &world.observed),
        }
    }
    assert!(world.applier.is_tried());
    assert_eq!(world.applier.witness_version(), 0);
    let wake = world.applier.next_wake(world.now).unwrap();
    assert!(wake > world.now);
    world.now = wake;
    world.run();
    assert_eq!(world.applier.witness_version(), 1);
}
