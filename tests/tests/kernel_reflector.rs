//! The kernel programs, run on single frames by BPF_PROG_TEST_RUN, against the host library that
//! they are built from.

#![expect(clippy::unwrap_used, reason = "a test panics to fail")]

use etherparse::{SlicedPacket, TransportSlice};
use probe_ebpf::frame::Frame;
use probe_ebpf::maps::{AgentBeat, AgentState, LocalChecks, Switch};
use probe_ebpf::outcome::{Outcome, Verdict};
use probe_ebpf::reflect::reflect;
use probe_ebpf::testing::{
    FrameSpec, HostNode, WITNESSES, assert_reply, cases, probe_frame, request, test_node,
};
use probe_ebpf::wire::NodeId;
use probe_ebpf::wire::ntp::NtpTime;
use probe_ebpf::wire::probe::{PROBE_LEN, Reply, Request};
use proptest::test_runner::{RngAlgorithm, TestRng};
use pulsepath_tests::kernel::{Program, Reflector};
use rand::{Rng, RngExt};

const MUTATIONS: usize = 100_000;

fn configured(purpose: &str) -> (Reflector, HostNode) {
    let mut node = test_node();
    let mut reflector = Reflector::load(purpose).unwrap();
    reflector.configure(&mut node).unwrap();
    (reflector, node)
}

#[test]
fn every_case_has_its_verdict_its_counter_and_its_bytes() {
    let (reflector, _) = configured("cases");
    for program in Program::ALL {
        for case in cases()
            .into_iter()
            .filter(|case| program.takes(&case.frame))
        {
            let name = format!("{program:?}: {}", case.name);
            let before = reflector.counted(case.expected).unwrap();
            let (verdict, after) = reflector.run(program, &case.frame).expect(&name);
            assert_eq!(verdict, case.expected.verdict(), "{name}");
            assert_eq!(
                reflector.counted(case.expected).unwrap(),
                before + 1,
                "{name}"
            );
            match case.reply {
                Some((spec, hop_limit)) => {
                    assert_reply(&spec, &after, hop_limit);
                }
                None => assert_eq!(after, case.frame, "{name}: untouched"),
            }
        }
    }
}

#[test]
fn maps_that_no_agent_has_filled_let_probes_pass() {
    let reflector = Reflector::load("unconfigured").unwrap();
    let frame = probe_frame().build();
    for program in Program::ALL {
        assert_eq!(
            reflector.run(program, &frame).unwrap(),
            (Verdict::Pass, frame.clone())
        );
    }
    assert_eq!(reflector.counted(Outcome::Unconfigured).unwrap(), 2);
}

#[test]
fn a_beat_counts_in_the_kernels_own_clock() {
    let (mut reflector, mut node) = configured("beat");
    let ask = |reflector: &Reflector| {
        let (_, frame) = reflector.run(Program::Xdp, &probe_frame().build()).unwrap();
        let payload = assert_reply(&probe_frame(), &frame, 64);
        Reply::decode(&payload, |_, _| Some(HostNode::current_key()))
            .unwrap()
            .answer
    };
    let now = ask(&reflector).node_time;
    node.beat = AgentBeat {
        last_ns: now,
        deadline_ns: now + 3_600_000_000_000,
        ..node.beat
    };
    reflector.configure(&mut node).unwrap();
    assert_eq!(ask(&reflector).flags, 0b1001, "agent up, checks fine");
    node.beat = AgentBeat {
        deadline_ns: now,
        state: AgentState::Draining,
        checks: LocalChecks::Failing,
        ..node.beat
    };
    reflector.configure(&mut node).unwrap();
    assert_eq!(
        ask(&reflector).flags,
        0b0010,
        "agent gone, draining, checks failing"
    );
}

/// What a random frame is made of, sometimes damaged afterwards. Most RENEWs and VOTEs among them are
/// such as `node` may honour.
fn mutation(node: &HostNode, rng: &mut impl Rng) -> Vec<u8> {
    let next = rng.random_bool(0.3);
    let key = if next {
        HostNode::next_key()
    } else {
        HostNode::current_key()
    };
    let request = Request {
        sequence: rng.random(),
        timestamp: NtpTime(rng.random()),
        error_estimate: rng.random(),
        ssid: rng.random(),
        flags: rng.random_range(0..4)
            | if rng.random_bool(0.1) {
                rng.random()
            } else {
                0
            },
        key_id: if next { 2 } else { 1 },
        lease_ms: rng.random(),
        node_id: if rng.random_bool(0.02) {
            NodeId(rng.random())
        } else {
            request().node_id
        },
        epoch_floor: rng.random_range(0..9),
        incarnation: if rng.random_bool(0.1) {
            rng.random()
        } else {
            node.assignment.incarnation
        },
        node_time: if rng.random_bool(0.1) {
            rng.random()
        } else {
            node.now - rng.random_range(0..3_000_000_000)
        },
        prober: match rng.random_range(0..10) {
            0 => rng.random(),
            1..5 => 0,
            other => WITNESSES[other - 5],
        },
    };
    let mut spec = FrameSpec {
        vlan_tags: rng.random_range(0..=2),
        ttl: rng.random(),
        ..FrameSpec::new(&request.encode(&key).to_bytes())
    };
    if rng.random_bool(0.4) {
        spec = spec.from_address(probe_ebpf::testing::SOURCE_V6);
    } else if rng.random_bool(0.3) {
        spec.options = (0..4 * rng.random_range(1..=10))
            .map(|_| rng.random())
            .collect();
    }
    spec.source.set_port(rng.random());
    let mut frame = spec.build();
    match rng.random_range(0..4) {
        0 => {
            for _ in 0..rng.random_range(1..=3) {
                let at = rng.random_range(0..frame.len());
                frame[at] ^= 1 << rng.random_range(0..8);
            }
        }
        1 => {
            let at = rng.random_range(12..frame.len() - PROBE_LEN);
            frame[at] = rng.random();
        }
        2 if rng.random_bool(0.3) => frame.truncate(rng.random_range(60..frame.len())),
        _ => frame.extend((0..rng.random_range(0..8)).map(|_| rng.random::<u8>())),
    }
    frame
}

/// The kernel's clock reading, as its answer gives it.
fn clock_of(reply: &[u8]) -> u64 {
    let packet = SlicedPacket::from_ethernet(reply).unwrap();
    let Some(TransportSlice::Udp(udp)) = packet.transport else {
        panic!("not UDP")
    };
    u64::from_be_bytes(udp.payload()[80..88].try_into().unwrap())
}

#[test]
fn kernel_and_host_agree_on_every_byte_of_100000_mutations() {
    let (mut reflector, mut node) = configured("mutations");
    // Its answer does not tell the clock reading; the cases cover it.
    node.config.plain_stamp = Switch::Off;
    reflector.configure(&mut node).unwrap();
    let (_, frame) = reflector.run(Program::Xdp, &probe_frame().build()).unwrap();
    node.now = clock_of(&frame);
    let mut rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    for program in Program::ALL {
        let mut accepted = 0;
        for round in 0..MUTATIONS {
            let frame = mutation(&node, &mut rng);
            if !program.takes(&frame) {
                continue;
            }
            let (verdict, kernels) = reflector.run(program, &frame).unwrap();
            if verdict == Verdict::Reply {
                accepted += 1;
                node.now = clock_of(&kernels);
            }
            let mut hosts = frame.clone();
            let outcome = reflect(&mut Frame::new(&mut hosts), &node);
            assert_eq!(
                verdict,
                outcome.verdict(),
                "{program:?}, round {round}: {outcome:?}"
            );
            assert_eq!(
                kernels, hosts,
                "{program:?}, round {round}: {outcome:?} of {frame:02x?}"
            );
        }
        let (kernels, hosts) = (reflector.lease().unwrap(), *node.lease.borrow());
        assert_eq!(kernels, hosts, "{program:?}");
        println!(
            "{program:?}: {} renewals, {} votes",
            hosts.renewals, hosts.votes
        );
        assert!(hosts.renewals > 1000 && hosts.votes > 1000);
        println!("{program:?}: {accepted} of {MUTATIONS} mutations accepted");
        assert!(accepted * 3 >= MUTATIONS, "only {accepted} were accepted");
    }
}
