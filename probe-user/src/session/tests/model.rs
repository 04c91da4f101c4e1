//! Replies lost, delayed, duplicated, reordered, replayed, altered and from the wrong place, in
//! any order, against a model that keeps everything and looks through all of it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Instant;

use proptest::prelude::*;

use super::world::{Flight, MS, PERIOD, WINDOW, World};
use crate::session::{Event, TargetId};

#[derive(Clone, Debug)]
enum Step {
    /// Time passes; what is due is sent, and answered by the node.
    Advance { ms: u32 },
    /// One of the replies ever made arrives, again or for the first time.
    Deliver { which: prop::sample::Index },
    /// The same with a bit flipped.
    Alter {
        which: prop::sample::Index,
        bit: prop::sample::Index,
    },
    /// The same from another target's address.
    Misplace { which: prop::sample::Index },
    /// The socket refuses the probes of the rounds that are due.
    Refuse { ms: u32 },
}

fn step() -> impl Strategy<Value = Step> {
    let which = any::<prop::sample::Index>;
    prop_oneof![
        4 => (0..150_u32).prop_map(|ms| Step::Advance { ms }),
        8 => which().prop_map(|which| Step::Deliver { which }),
        1 => (which(), which()).prop_map(|(which, bit)| Step::Alter { which, bit }),
        1 => which().prop_map(|which| Step::Misplace { which }),
        1 => (0..150_u32).prop_map(|ms| Step::Refuse { ms }),
    ]
}

/// A probe as the model remembers it.
struct Sent {
    flight: Flight,
    target: TargetId,
    at: Instant,
    answered: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Reply { newest: bool },
    Late,
    Duplicate,
    Reordered,
}

#[derive(Default)]
struct Model {
    sent: Vec<Sent>,
    newest_of_address: HashMap<IpAddr, u64>,
    newest_of_target: HashMap<TargetId, u64>,
}

impl Model {
    fn deliver(&mut self, index: usize, now: Instant) -> Verdict {
        let sent = &mut self.sent[index];
        if now - sent.at > WINDOW {
            return Verdict::Late;
        }
        if std::mem::replace(&mut sent.answered, true) {
            return Verdict::Duplicate;
        }
        let time = sent.flight.node_time;
        let of_address = self
            .newest_of_address
            .entry(sent.flight.source.ip())
            .or_default();
        if time < *of_address {
            return Verdict::Reordered;
        }
        *of_address = time;
        let of_target = self.newest_of_target.entry(sent.target).or_default();
        let newest = time >= *of_target;
        *of_target = time.max(*of_target);
        Verdict::Reply { newest }
    }
}

/// What the prober made of one datagram: what it counted, or the event.
fn observe(world: &mut World, flight: &Flight) -> Option<Verdict> {
    world.events();
    let before = world.stats();
    world.deliver(flight);
    let after = world.stats();
    let counted = [
        (after.late - before.late, Verdict::Late),
        (after.duplicate - before.duplicate, Verdict::Duplicate),
        (after.reordered - before.reordered, Verdict::Reordered),
    ];
    let counted = counted
        .into_iter()
        .filter(|(count, _)| *count == 1)
        .map(|(_, verdict)| verdict);
    let replied = world.events().into_iter().filter_map(|event| match event {
        Event::Reply { newest, .. } => Some(Verdict::Reply { newest }),
        _ => None,
    });
    let mut verdicts = counted.chain(replied);
    let verdict = verdicts.next();
    assert!(verdicts.next().is_none(), "one datagram, two verdicts");
    verdict
}

fn datagrams(world: &World) -> u64 {
    let stats = world.stats();
    stats.answered
        + stats.late
        + stats.duplicate
        + stats.replayed
        + stats.forged
        + stats.foreign
        + stats.unexpected_source
}

fn send(world: &mut World, model: &mut Model, ms: u32) {
    for probe in world.advance(ms * MS) {
        let flight = world.reply(&probe);
        let at = world.now;
        model.sent.push(Sent {
            flight,
            target: probe.target,
            at,
            answered: false,
        });
    }
}

fn run(steps: Vec<Step>) {
    let mut world = World::new();
    world.insert(1, &["10.0.0.1", "fd00::1"]);
    world.insert(2, &["10.0.0.2"]);
    let mut model = Model::default();
    let mut delivered = 0;
    send(&mut world, &mut model, 50);
    for step in steps {
        match step {
            Step::Advance { ms } => send(&mut world, &mut model, ms),
            Step::Deliver { which } => {
                let index = which.index(model.sent.len());
                let flight = model.sent[index].flight.clone();
                let expected = model.deliver(index, world.now);
                assert_eq!(observe(&mut world, &flight), Some(expected));
                delivered += 1;
            }
            Step::Alter { which, bit } => {
                let mut flight = model.sent[which.index(model.sent.len())].flight.clone();
                let bit = bit.index(flight.payload.len() * 8);
                flight.payload[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(observe(&mut world, &flight), None);
                delivered += 1;
            }
            Step::Misplace { which } => {
                let mut flight = model.sent[which.index(model.sent.len())].flight.clone();
                let other = if flight.source.ip().to_string() == "10.0.0.2" {
                    1
                } else {
                    2
                };
                flight
                    .source
                    .set_ip(format!("10.0.0.{other}").parse().unwrap());
                assert_eq!(observe(&mut world, &flight), None);
                delivered += 1;
            }
            Step::Refuse { ms } => {
                for probe in world.advance(ms * MS) {
                    world.prober.handle_refused(probe.target, probe.sequence);
                }
            }
        }
    }
    assert_eq!(
        datagrams(&world),
        delivered,
        "each datagram is counted once"
    );

    let answered = model.sent.iter().filter(|sent| sent.answered).count() as u64;
    assert_eq!(world.stats().answered, answered);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn the_prober_agrees_with_the_model(steps in prop::collection::vec(step(), 1..120)) {
        run(steps);
    }
}

#[test]
fn every_probe_ends_as_answered_lost_or_refused() {
    let mut world = World::new();
    world.insert(1, &["10.0.0.1", "fd00::1"]);
    let mut sent = 0;
    for round in 0..30 {
        for (index, probe) in world.next_round().into_iter().enumerate() {
            sent += 1;
            match (round + index) % 3 {
                0 => world.prober.handle_refused(probe.target, probe.sequence),
                1 => {
                    let reply = world.reply(&probe);
                    world.deliver(&reply);
                }
                _ => {}
            }
        }
    }
    // Rounds go on, all refused, until the window of every probe above has closed.
    let mut refused = 0;
    for _ in 0..1 + WINDOW.div_duration_f64(PERIOD).ceil() as u32 {
        for probe in world.next_round() {
            world.prober.handle_refused(probe.target, probe.sequence);
            refused += 1;
        }
    }
    let stats = world.stats();
    assert_eq!(
        (stats.answered, stats.lost, stats.refused),
        (20, 20, 20 + refused)
    );
    assert_eq!(stats.sent, sent + refused);
}
