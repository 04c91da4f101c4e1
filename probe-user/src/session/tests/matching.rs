//! Which datagrams are replies.

use std::net::SocketAddr;
use std::time::Duration;

use probe_ebpf::wire::probe::ProbePacket;

use super::world::{Flight, MS, PERIOD, WINDOW, World};
use crate::keys::ClusterKeys;
use crate::session::{Event, Target, TargetError, TargetId};

fn one_node() -> World {
    let mut world = World::new();
    world.insert(1, &["10.0.0.1"]);
    world
}

#[test]
fn a_reply_tells_round_trip_arrival_and_who_answered() {
    let mut world = one_node();
    let probes = world.next_round();
    world.events();
    let reply = world.reply(&probes[0]);
    world.now += 3 * MS;
    world.deliver(&reply);
    let [
        Event::Reply {
            target,
            at,
            round_trip,
            from,
            newest,
            ..
        },
    ] = world.events()[..]
    else {
        panic!("one event")
    };
    assert_eq!((target, from), (TargetId(1), "10.0.0.1".parse().unwrap()));
    assert_eq!((at, round_trip), (world.now, 3 * MS));
    assert!(newest);
}

#[test]
fn a_reply_cannot_arrive_before_its_probe_was_sent() {
    let mut world = one_node();
    let probes = world.next_round();
    let reply = world.reply(&probes[0]);
    world
        .prober
        .handle_datagram(world.now - 50 * MS, reply.source, &reply.payload);
    let events = world.events();
    let Some(Event::Reply { at, round_trip, .. }) = events.last() else {
        panic!("a reply")
    };
    assert_eq!((*at, *round_trip), (world.now, Duration::ZERO));
}

#[test]
fn the_next_probe_echoes_the_newest_reply() {
    let mut world = one_node();
    let probes = world.next_round();
    let echo = |payload| {
        let packet = ProbePacket::from_bytes(payload);
        (packet.incarnation(), packet.node_time())
    };
    assert_eq!(echo(&probes[0].payload), (0, 0));
    let reply = world.reply(&probes[0]);
    world.deliver(&reply);
    let probes = world.next_round();
    assert_eq!(
        echo(&probes[0].payload),
        (world.incarnation, reply.node_time)
    );
}

#[test]
fn a_second_copy_is_a_duplicate() {
    let mut world = one_node();
    let probes = world.next_round();
    let reply = world.reply(&probes[0]);
    world.deliver(&reply);
    world.deliver(&reply);
    assert_eq!(world.answered().len(), 1);
    assert_eq!(world.stats().duplicate, 1);
}

#[test]
fn a_reply_at_the_end_of_the_window_counts_and_a_later_one_is_late() {
    for (age, answered, late) in [(WINDOW, 1, 0), (WINDOW + MS, 0, 1)] {
        let mut world = one_node();
        let probes = world.next_round();
        let reply = world.reply(&probes[0]);
        world.now += age;
        world.deliver(&reply);
        assert_eq!(
            (world.stats().answered, world.stats().late),
            (answered, late)
        );
    }
}

#[test]
fn a_reply_long_after_its_probe_was_forgotten_is_late() {
    let mut world = one_node();
    let probes = world.next_round();
    let reply = world.reply(&probes[0]);
    for _ in 0..10 {
        world.next_round();
    }
    world.deliver(&reply);
    assert_eq!((world.stats().late, world.answered().len()), (1, 0));
}

#[test]
fn a_reply_overtaken_by_a_newer_one_is_reordered_and_its_probe_not_lost() {
    let mut world = one_node();
    let probes = world.next_round();
    let older = world.reply(&probes[0]);
    let probes = world.next_round();
    let newer = world.reply(&probes[0]);
    world.deliver(&newer);
    world.deliver(&older);
    assert_eq!(world.answered().len(), 1);
    assert_eq!((world.stats().reordered, world.stats().answered), (1, 2));
    for _ in 0..5 {
        world.next_round();
    }
    assert_eq!(
        world.stats().lost,
        2,
        "those of the later rounds whose window has closed"
    );
}

#[test]
fn a_reply_from_before_a_reboot_is_reordered() {
    let mut world = one_node();
    let probes = world.next_round();
    let warm_up = world.reply(&probes[0]);
    world.deliver(&warm_up);
    let probes = world.next_round();
    let before = world.reply(&probes[0]);
    let probes = world.next_round();
    world.incarnation += 1;
    world.node_time = 0;
    let after = world.reply(&probes[0]);
    world.deliver(&after);
    world.deliver(&before);
    assert_eq!((world.answered().len(), world.stats().reordered), (2, 1));
    let probes = world.next_round();
    assert_eq!(
        ProbePacket::from_bytes(&probes[0].payload).incarnation(),
        world.incarnation
    );
}

#[test]
fn replies_of_two_addresses_may_overtake_each_other() {
    let mut world = World::new();
    world.insert(1, &["10.0.0.1", "fd00::1"]);
    let probes = world.next_round();
    world.events();
    let (first, second) = (world.reply(&probes[0]), world.reply(&probes[1]));
    world.deliver(&second);
    world.deliver(&first);
    let newest = |event| match event {
        Event::Reply { newest, .. } => newest,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        world.events().into_iter().map(newest).collect::<Vec<_>>(),
        [true, false]
    );
}

#[test]
fn every_flipped_bit_makes_a_reply_worthless() {
    let mut world = one_node();
    let probes = world.next_round();
    let reply = world.reply(&probes[0]);
    for bit in 0..reply.payload.len() * 8 {
        let mut flipped = reply.clone();
        flipped.payload[bit / 8] ^= 1 << (bit % 8);
        world.deliver(&flipped);
    }
    let stats = world.stats();
    assert_eq!(stats.forged + stats.foreign, reply.payload.len() as u64 * 8);
    assert_eq!(world.answered().len(), 0);
    world.deliver(&reply);
    assert_eq!(world.answered().len(), 1, "none of them used the probe up");
}

#[test]
fn datagrams_of_every_other_length_are_foreign() {
    let mut world = one_node();
    let probes = world.next_round();
    let reply = world.reply(&probes[0]);
    for length in (0..reply.payload.len()).chain([105, 200]) {
        let mut payload = reply.payload.clone();
        payload.resize(length, 0);
        world.deliver(&Flight {
            payload,
            ..reply.clone()
        });
    }
    assert_eq!(world.stats().foreign, 106);
}

#[test]
fn our_own_request_sent_back_is_foreign() {
    let mut world = one_node();
    let probes = world.next_round();
    world
        .prober
        .handle_datagram(world.now, probes[0].to, &probes[0].payload);
    assert_eq!((world.stats().foreign, world.answered().len()), (1, 0));
}

#[test]
fn a_reply_signed_with_another_nodes_key_is_forged() {
    let mut world = one_node();
    let probes = world.next_round();
    let other = world.node_keys(2);
    let reply = world.reply_signed(&probes[0], &other.current().sip());
    world.deliver(&reply);
    assert_eq!((world.stats().forged, world.answered().len()), (1, 0));
}

#[test]
fn a_reply_from_another_port_or_a_strange_address_is_unexpected() {
    let mut world = one_node();
    let probes = world.next_round();
    let reply = world.reply(&probes[0]);
    for source in ["10.0.0.1:863", "10.0.0.2:862"] {
        let source: SocketAddr = source.parse().unwrap();
        world.deliver(&Flight {
            source,
            ..reply.clone()
        });
    }
    assert_eq!(
        (world.stats().unexpected_source, world.answered().len()),
        (2, 0)
    );
}

#[test]
fn a_nodes_reply_is_not_accepted_from_its_other_address() {
    let mut world = World::new();
    world.insert(1, &["10.0.0.1", "fd00::1"]);
    let probes = world.next_round();
    let reply = world.reply(&probes[0]);
    world.deliver(&Flight {
        source: probes[1].to,
        ..reply
    });
    assert_eq!(
        (world.stats().unexpected_source, world.answered().len()),
        (1, 0)
    );
}

#[test]
fn an_ipv4_address_in_ipv6_form_is_the_same_target() {
    let mut world = World::new();
    world.insert(1, &["::ffff:10.0.0.1"]);
    let probes = world.next_round();
    assert_eq!(probes[0].to, "10.0.0.1:862".parse().unwrap());
    let reply = world.reply(&probes[0]);
    world.deliver(&Flight {
        source: "[::ffff:10.0.0.1]:862".parse().unwrap(),
        ..reply
    });
    assert_eq!(world.answered().len(), 1);
}

#[test]
fn a_reply_to_an_earlier_prober_is_a_replay_even_with_the_same_sequence() {
    let mut earlier = one_node();
    let probes = earlier.next_round();
    let mut world = one_node();
    // The same seed: sequence numbers repeat, and only T1 differs.
    world.prober.set_wall_clock(world.now, 5 * MS);
    let own = world.next_round();
    assert_eq!(own[0].sequence, probes[0].sequence);
    let replay = world.reply(&probes[0]);
    world.deliver(&replay);
    assert_eq!((world.stats().replayed, world.answered().len()), (1, 0));
}

#[test]
fn replies_signed_with_the_next_key_are_accepted() {
    let mut world = one_node();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cluster.key");
    let line = |id, digit: &str| format!("pulsepath-cluster-key:{id}:{}\n", digit.repeat(64));
    std::fs::write(&path, line(1, "a") + &line(2, "b")).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&path, mode).unwrap();
    let keys = ClusterKeys::read(&path).unwrap().node_keys("n1");
    let next = keys.all()[1].clone();
    let node = probe_ebpf::wire::NodeId::of("n1");
    let target = Target {
        node,
        keys,
        addresses: vec!["10.0.0.1".parse().unwrap()],
    };
    world.prober.insert(world.now, TargetId(1), target).unwrap();

    // The node answers with the key that the request names; here, the next prober's.
    let probes = world.next_round();
    let mut probe = probes[0].clone();
    probe.payload[50..52].copy_from_slice(&next.id.to_be_bytes());
    let reply = world.reply_signed(&probe, &next.sip());
    world.deliver(&reply);
    assert_eq!(world.answered().len(), 1);
}

#[test]
fn after_a_change_of_address_only_the_new_one_answers_and_nothing_is_lost() {
    let mut world = one_node();
    let probes = world.next_round();
    let old = world.reply(&probes[0]);
    world.insert(1, &["10.0.0.2"]);
    world.deliver(&old);
    assert_eq!(world.stats().unexpected_source, 1);
    let probes = world.next_round();
    assert_eq!(
        probes[0].to.ip(),
        "10.0.0.2".parse::<std::net::IpAddr>().unwrap()
    );
    let reply = world.reply(&probes[0]);
    world.deliver(&reply);
    assert_eq!(world.answered().len(), 1);
    world.advance(WINDOW + MS);
    world.advance(PERIOD);
    assert_eq!(world.stats().lost, 0);
}

#[test]
fn an_address_belongs_to_one_target() {
    let mut world = one_node();
    let error = world.try_insert(2, &["10.0.0.2", "10.0.0.1"]).unwrap_err();
    let address = "10.0.0.1".parse().unwrap();
    assert_eq!(
        error,
        TargetError::AddressTaken {
            address,
            owner: TargetId(1)
        }
    );
    assert_eq!(
        world.next_round().len(),
        1,
        "the second target was not added"
    );
    world.prober.remove(TargetId(1));
    world.insert(2, &["10.0.0.2", "10.0.0.1"]);
}

#[test]
fn addresses_of_many_or_no_hosts_are_refused_and_change_nothing() {
    for address in ["0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255"] {
        let mut world = one_node();
        let error = world.try_insert(1, &[address]).unwrap_err();
        assert_eq!(
            error,
            TargetError::NotUnicast {
                address: address.parse().unwrap()
            }
        );
        assert_eq!(world.next_round()[0].to, "10.0.0.1:862".parse().unwrap());
    }
}

#[test]
fn a_removed_target_is_neither_probed_nor_heard() {
    let mut world = one_node();
    let probes = world.next_round();
    let reply = world.reply(&probes[0]);
    world.events();
    world.prober.remove(TargetId(1));
    world.deliver(&reply);
    assert!(world.advance(PERIOD).is_empty());
    assert!(world.events().is_empty());
}

#[test]
fn a_target_that_becomes_another_node_starts_afresh() {
    let mut world = one_node();
    let probes = world.next_round();
    let reply = world.reply(&probes[0]);
    world.deliver(&reply);
    let keys = world.node_keys(9);
    let node = probe_ebpf::wire::NodeId::of("n9");
    let target = Target {
        node,
        keys,
        addresses: vec!["10.0.0.1".parse().unwrap()],
    };
    world.prober.insert(world.now, TargetId(1), target).unwrap();
    let packet = ProbePacket::from_bytes(&world.next_round()[0].payload);
    assert_eq!((packet.node_id(), packet.node_time()), (node, 0));
}
