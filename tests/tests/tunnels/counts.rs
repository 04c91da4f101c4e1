//! What is counted is what goes over the wire.

use std::time::Duration;

use probe_ebpf::testing::FrameSpec;
use pulsepath_tests::eventually;

use crate::scene::{Count, SOON, Scene};

const PACKETS: u32 = 100_000;
const STREAM: usize = 64 << 20;

/// Packets and bulk TCP, each way.
fn traffic(scene: &Scene) {
    for (from, to) in [(1, 2), (2, 1)] {
        scene.packets(from, to, PACKETS).unwrap();
        scene.stream(from, to, STREAM).unwrap();
    }
}

#[test]
fn tcx_counts_every_segment_that_the_link_carries_both_ways() {
    let scene = Scene::new("wire", 2);
    for index in [1, 2] {
        scene.without_offloads(index).unwrap();
    }
    let _agents = [1, 2].map(|index| scene.start(index, "reflector.attach = 'tcx'"));
    let before = [1, 2].map(|index| scene.on_the_link(index));
    traffic(&scene);
    for (index, peer, before) in [(1, 2, before[0]), (2, 1, before[1])] {
        eventually(SOON, || {
            let [received, sent] = scene.counts(index, peer);
            let link = scene.on_the_link(index);
            let link = [link[0].since(before[0]), link[1].since(before[1])];
            if [received, sent] == link {
                println!("n{index}: received {received:?}, sent {sent:?}");
                return Ok(());
            }
            Err(format!(
                "n{index}: counted {received:?}, {sent:?}; on the link {link:?}"
            ))
        });
    }
}

#[test]
fn large_packets_count_as_their_segments_on_both_sides() {
    let scene = Scene::new("gso", 2);
    let _agents = [1, 2].map(|index| scene.start(index, ""));
    let before = scene.on_the_link(1);
    traffic(&scene);
    eventually(SOON, || {
        let [[received_1, sent_1], [received_2, sent_2]] = [scene.counts(1, 2), scene.counts(2, 1)];
        let link = scene.on_the_link(1)[1].since(before[1]);
        if (received_1, sent_1) == (sent_2, received_2) && sent_1.packets > link.packets {
            let (counted, packets) = (sent_1.packets, link.packets);
            println!("{counted} segments in {packets} packets on the link");
            return Ok(());
        }
        Err(format!(
            "n1: {received_1:?}, {sent_1:?}; n2: {received_2:?}, {sent_2:?}; on the link {link:?}"
        ))
    });
}

#[test]
fn large_packets_count_as_the_segments_that_the_other_end_receives() {
    let scene = Scene::new("cut", 2);
    for index in [1, 2] {
        scene.segment_on_the_way_to(index).unwrap();
    }
    let _agents = [1, 2].map(|index| scene.start(index, "reflector.attach = 'tcx'"));
    let before = [1, 2].map(|index| scene.on_the_link(index));
    traffic(&scene);
    let link = |index: u8| {
        let (now, before) = (scene.on_the_link(index), before[usize::from(index) - 1]);
        [now[0].since(before[0]), now[1].since(before[1])]
    };
    for (from, to) in [(1, 2), (2, 1)] {
        eventually(SOON, || {
            let ([_, sent], [received, _]) = (scene.counts(from, to), scene.counts(to, from));
            let ([_, left], [arrived, _]) = (link(from), link(to));
            if (sent, received) == (arrived, arrived) && left.packets < arrived.packets {
                let (packets, segments) = (left.packets, arrived.packets);
                println!("n{from}: {packets} packets, which arrive as {segments}");
                return Ok(());
            }
            Err(format!(
                "sent {sent:?}, received {received:?}, on the link {left:?}, {arrived:?}"
            ))
        });
    }
}

/// The sender's programs see the tag in the packet; for the receiver's the kernel has put it beside.
#[test]
fn a_vlan_tag_counts_in_the_packet_and_beside_it() {
    let scene = Scene::new("tag", 2);
    let _agents = [1, 2].map(|index| scene.start(index, "reflector.attach = 'tcx'"));
    let (sender, receiver) = (scene.node(1), scene.node(2));
    let mut spec = FrameSpec::new(&[8; 100]).to_port(8472);
    spec.vlan_tags = 1;
    spec.source.set_ip(sender.ipv4().into());
    spec.destination.set_ip(receiver.ipv4().into());
    let mut frame = spec.build();
    frame[..6].copy_from_slice(&receiver.netns().mac("eth0").unwrap());
    let tagged = Count {
        packets: 1000,
        bytes: 1000 * frame.len() as u64,
    };
    let frames = std::iter::repeat_n(frame, 1000);
    sender.netns().send_frames("eth0", frames).unwrap();
    eventually(SOON, || {
        let ([_, sent], [received, _]) = (scene.counts(1, 2), scene.counts(2, 1));
        let right = (sent, received) == (tagged, tagged);
        right.then_some(()).ok_or((sent, received))
    });
}

#[test]
fn native_xdp_counts_what_is_received_and_the_interface_agrees() {
    let scene = Scene::new("native", 2);
    let _agents = [
        scene.start(1, "reflector.attach = 'tcx'"),
        scene.start(2, "reflector.attach = 'native'"),
    ];
    let before = scene.on_the_link(2);
    traffic(&scene);
    eventually(SOON, || {
        let [received, _] = scene.counts(2, 1);
        let link = scene.on_the_link(2)[0].since(before[0]);
        let [_, sent] = scene.counts(1, 2);
        if received.packets == link.packets && received == sent {
            println!("received {received:?}");
            return Ok(());
        }
        Err(format!(
            "counted {received:?}, sent {sent:?}, on the link {link:?}"
        ))
    });
    let metrics = scene.node(2).agent_http("/metrics").unwrap().body;
    assert!(metrics.contains("mode=\"native\""), "{metrics}");
}

#[test]
fn a_clsact_filter_counts_as_tcx_does() {
    let scene = Scene::new("clsact", 2);
    let _agents = [
        scene.start(1, "tunnels.hook = 'clsact'"),
        scene.start(2, "tunnels.hook = 'tcx'"),
    ];
    for (from, to) in [(1, 2), (2, 1)] {
        scene.packets(from, to, 1000).unwrap();
    }
    eventually(SOON, || {
        let [[received_1, sent_1], [received_2, sent_2]] = [scene.counts(1, 2), scene.counts(2, 1)];
        let equal = (received_1, sent_1) == (sent_2, received_2) && sent_1.packets == 1000;
        equal
            .then_some(())
            .ok_or((received_1, sent_1, received_2, sent_2))
    });
}

#[test]
fn metrics_and_inspect_tell_what_has_been_counted_and_when_last() {
    let scene = Scene::new("tell", 2);
    let _agent = scene.start(1, "tunnels.per_vni = true");
    scene.packets(1, 2, 10).unwrap();
    let metrics = scene.node(1).agent_http("/metrics").unwrap().body;
    for series in [
        "pulsepath_tunnel_packets_total{peer=\"10.77.0.2\",encap=\"vxlan\",vni=\"42\",direction=\"sent\"} 10",
        // Ethernet, IPv4, UDP, VXLAN, and the inner packet with as much but VXLAN.
        "pulsepath_tunnel_bytes_total{peer=\"10.77.0.2\",encap=\"vxlan\",vni=\"42\",direction=\"sent\"} 10920",
        "pulsepath_tunnel_last_seen_seconds{peer=\"10.77.0.2\",encap=\"vxlan\",vni=\"42\",direction=\"sent\"} ",
    ] {
        assert!(metrics.contains(series), "{metrics}");
    }
    let text = scene.inspect_tunnels(1, &[]);
    assert!(
        text.contains("sent only") && text.contains("received  never"),
        "{text}"
    );
    let tunnel = &scene.inspect(1)["tunnels"][0];
    assert_eq!(
        (&tunnel["vni"], &tunnel["verdict"]),
        (&42.into(), &"sent_only".into())
    );
    let age = Duration::from_millis(tunnel["sent"]["last_seen_ms"].as_u64().unwrap());
    assert!(age < SOON, "{age:?}");
}
