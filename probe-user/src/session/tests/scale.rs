//! As many targets as one prober is meant for.

use std::time::Duration;

use super::world::{PERIOD, World};

const TARGETS: u32 = 100_000;
const STEPS: u32 = 100;

#[test]
fn a_hundred_thousand_targets_are_probed_evenly_and_all_answer() {
    let mut world = World::new();
    for id in 0..TARGETS {
        let [_, a, b, c] = id.to_be_bytes();
        world.insert(id, &[&format!("10.{a}.{b}.{c}")]);
    }
    let step = PERIOD / STEPS;
    let even = (TARGETS / STEPS) as usize;
    world.advance(Duration::ZERO);
    for _ in 0..2 * STEPS {
        let probes = world.advance(step);
        assert!(
            probes.len().abs_diff(even) < even / 50,
            "{} of {even} probes",
            probes.len()
        );
        for probe in &probes {
            let reply = world.reply(probe);
            world.deliver(&reply);
        }
        world.events();
    }
    let stats = world.stats();
    assert_eq!(stats.sent, u64::from(2 * TARGETS) + 1);
    assert_eq!(
        stats.answered,
        stats.sent - 1,
        "all but the very first, which was not delivered"
    );
    assert_eq!(stats.lost + stats.late + stats.skipped_rounds, 0);
}
