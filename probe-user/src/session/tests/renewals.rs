//! What probes ask of a lease.

use std::time::Duration;

use probe_ebpf::wire::probe::{ProbePacket, RENEW, VOTE};

use super::world::{MS, World};
use crate::session::{Renewal, Right, TargetId, Transmit};

const LEASE: Duration = Duration::from_millis(1_400);
const NODE: TargetId = TargetId(1);

fn one_node() -> World {
    let mut world = World::new();
    world.insert(1, &["10.0.0.1"]);
    world
}

fn renewal(world: &World) -> Renewal {
    Renewal {
        right: Right::Controller,
        floor: 9,
        time: LEASE,
        since: world.now,
    }
}

/// Begins the next round, and has it answered a little later.
fn answered_round(world: &mut World) -> Transmit {
    let probe = world.next_round().remove(0);
    let reply = world.reply(&probe);
    world.now += MS;
    world.deliver(&reply);
    probe
}

fn packet(probe: &Transmit) -> ProbePacket {
    ProbePacket::from_bytes(&probe.payload)
}

#[test]
fn a_renewing_probe_names_its_floor_and_echoes_the_newest_reply() {
    let mut world = one_node();
    let renewal = renewal(&world);
    world.prober.set_renewal(NODE, Some(renewal));
    answered_round(&mut world);
    let echoed = world.node_time;
    let probe = packet(&answered_round(&mut world));
    assert_eq!(probe.flags(), RENEW);
    assert_eq!((probe.epoch(), probe.lease_ms()), (9, 1_400));
    assert_eq!(probe.node_time(), echoed);
    let stats = world.stats();
    assert_eq!((stats.sent, stats.extending), (2, 1));
}

#[test]
fn a_witness_votes_in_its_own_name() {
    let mut world = one_node();
    let right = Right::Witness(7 << 32 | 8);
    let vote = Renewal {
        right,
        ..renewal(&world)
    };
    world.prober.set_renewal(NODE, Some(vote));
    answered_round(&mut world);
    let probe = packet(&answered_round(&mut world));
    assert_eq!(probe.flags(), VOTE);
    assert_eq!(probe.ages_ms(), (7, 8));
}

#[test]
fn nothing_is_extended_without_a_reply_to_echo() {
    let mut world = one_node();
    let renewal = renewal(&world);
    world.prober.set_renewal(NODE, Some(renewal));
    assert_eq!(packet(&world.next_round()[0]).flags(), 0);
    assert_eq!(world.prober.set_renewal(NODE, None), None);
}

#[test]
fn a_reply_from_before_the_right_to_renew_extends_nothing() {
    let mut world = one_node();
    answered_round(&mut world);
    world.now += MS;
    let renewal = renewal(&world);
    world.prober.set_renewal(NODE, Some(renewal));
    assert_eq!(packet(&answered_round(&mut world)).flags(), 0);
    assert_eq!(packet(&answered_round(&mut world)).flags(), RENEW);
}

#[test]
fn a_reply_that_comes_when_the_right_to_renew_is_over_extends_nothing() {
    let mut world = one_node();
    let renewal = renewal(&world);
    world.prober.set_renewal(NODE, Some(renewal));
    world.prober.entitle(Some(world.now + MS * 1_000_000));
    answered_round(&mut world);
    world.prober.entitle(Some(world.now + MS / 2));
    assert_eq!(packet(&answered_round(&mut world)).flags(), RENEW);
    assert_eq!(packet(&answered_round(&mut world)).flags(), 0);
}

#[test]
fn whoever_raises_the_floor_learns_what_was_echoed_under_the_old_one() {
    let mut world = one_node();
    let old = renewal(&world);
    world.prober.set_renewal(NODE, Some(old));
    answered_round(&mut world);
    let heard = world.now;
    // Echoes the reply that came in `heard`; its own is not echoed any more.
    answered_round(&mut world);
    let raised = Renewal { floor: 10, ..old };
    assert_eq!(world.prober.set_renewal(NODE, Some(raised)), Some(heard));
}

#[test]
fn probes_that_echo_the_same_reply_again_extend_nothing_further() {
    let mut world = one_node();
    let renewal = renewal(&world);
    world.prober.set_renewal(NODE, Some(renewal));
    answered_round(&mut world);
    let heard = world.now;
    for _ in 0..5 {
        world.next_round();
    }
    assert_eq!(world.prober.set_renewal(NODE, None), Some(heard));
}

#[test]
fn a_probe_of_a_node_that_lost_its_state_echoes_its_new_life_only() {
    let mut world = one_node();
    let renewal = renewal(&world);
    world.prober.set_renewal(NODE, Some(renewal));
    answered_round(&mut world);
    world.incarnation += 1;
    world.node_time = 0;
    answered_round(&mut world);
    let probe = packet(&world.next_round()[0]);
    assert_eq!(
        (probe.incarnation(), probe.node_time()),
        (world.incarnation, 1)
    );
}
