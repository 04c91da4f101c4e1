use super::*;
use crate::maps::{AgentBeat, AgentState, LocalChecks};
use crate::outcome::Verdict;
use crate::testing::{
    FrameSpec, HostNode, assert_reply, cases, lease_cases, probe_frame, request, test_node,
};
use crate::wire::ntp::NtpTime;
use crate::wire::probe::{AGENT_UP, Answer, DRAINING, LOCAL_CHECKS_OK, NEVER, Reply};
use crate::wire::stamp::StampBase;
use std::vec::Vec;

/// The outcome, and the frame afterwards.
fn run(frame: &[u8], node: &HostNode) -> (Outcome, Vec<u8>) {
    let mut bytes = frame.to_vec();
    let outcome = reflect(&mut Frame::new(&mut bytes), node);
    (outcome, bytes)
}

fn decode(payload: &[u8]) -> Reply {
    Reply::decode(payload, |_, _| Some(HostNode::current_key())).unwrap()
}

fn ask(node: &HostNode) -> Reply {
    let (outcome, reply) = run(&probe_frame().build(), node);
    assert_eq!(outcome, Outcome::Answered);
    decode(&assert_reply(&probe_frame(), &reply, HOP_LIMIT))
}

#[test]
fn every_case_has_its_outcome() {
    let node = test_node();
    for case in cases() {
        let (outcome, after) = run(&case.frame, &node);
        assert_eq!(outcome, case.expected, "{}", case.name);
        match case.reply {
            Some((spec, hop_limit)) => {
                assert_reply(&spec, &after, hop_limit);
            }
            None => assert_eq!(after, case.frame, "{}: untouched", case.name),
        }
    }
}

#[test]
fn every_outcome_has_its_case() {
    let node = test_node();
    let of_the_lease = lease_cases(&node.assignment, node.now);
    let of_the_lease = of_the_lease.iter().flat_map(|case| &case.steps);
    let seen: Vec<_> = cases()
        .iter()
        .map(|case| case.expected)
        .chain(of_the_lease.map(|step| step.expected))
        .collect();
    // These two need another configuration than the table's, and have tests of their own.
    let elsewhere = [Outcome::Unconfigured, Outcome::Foreign];
    for outcome in Outcome::ALL {
        assert!(
            elsewhere.contains(outcome) || seen.contains(outcome),
            "no case for {outcome:?}"
        );
    }
}

#[test]
fn a_reply_carries_what_the_node_knows() {
    let node = test_node();
    let reply = ask(&node);
    let wall = NtpTime::from_unix_nanos(node.now + node.beat.wall_offset_ns);
    assert_eq!(reply.sequence, request().sequence);
    assert_eq!(reply.ssid, request().ssid);
    assert_eq!(reply.sender_timestamp, request().timestamp);
    assert_eq!(reply.node_id.0, node.config.node_id);
    assert_eq!(reply.key_id, request().key_id);
    assert_eq!(
        reply.answer,
        Answer {
            received: wall,
            sent: wall,
            error_estimate: node.config.error_estimate,
            ttl: probe_frame().ttl,
            flags: AGENT_UP | LOCAL_CHECKS_OK,
            lease_ms: 0,
            epoch: 7,
            incarnation: node.assignment.incarnation,
            node_time: node.now,
            beat_age_ms: 123,
            tunnel_age_ms: NEVER,
        }
    );
    assert_eq!(node.answered.borrow()[0].0.port, 50_000);
}

#[test]
fn the_age_of_the_last_tunnel_packet_is_told() {
    let mut node = test_node();
    node.tunnel_seen = node.now - 42_999_999;
    assert_eq!(ask(&node).answer.tunnel_age_ms, 42);
}

#[test]
fn the_agent_is_up_until_its_deadline_and_not_after() {
    let mut node = test_node();
    node.now = node.beat.deadline_ns;
    assert_ne!(ask(&node).answer.flags & AGENT_UP, 0);
    node.now += 1;
    assert_eq!(ask(&node).answer.flags & AGENT_UP, 0);
}

#[test]
fn draining_and_failing_checks_are_told() {
    let mut node = test_node();
    node.beat.state = AgentState::Draining;
    assert_ne!(ask(&node).answer.flags & DRAINING, 0);
    node.beat.checks = LocalChecks::Failing;
    assert_eq!(ask(&node).answer.flags & LOCAL_CHECKS_OK, 0);
}

#[test]
fn an_agent_that_never_beat_is_down_since_ever() {
    let node = HostNode {
        beat: AgentBeat::default(),
        ..test_node()
    };
    let answer = ask(&node).answer;
    assert_eq!((answer.flags & AGENT_UP, answer.beat_age_ms), (0, NEVER));
}

#[test]
fn a_reflector_without_configuration_lets_probes_pass() {
    let mut node = test_node();
    node.config.probe_port = 0;
    let frame = probe_frame().build();
    assert_eq!(run(&frame, &node), (Outcome::Unconfigured, frame));
    assert_eq!(Outcome::Unconfigured.verdict(), Verdict::Pass);
}

#[test]
fn switched_off_protocols_pass_untouched() {
    let mut node = test_node();
    node.config.plain_stamp = Switch::Off;
    node.config.sbfd = Switch::Off;
    for case in cases() {
        let expected = match case.expected {
            Outcome::AnsweredStamp | Outcome::ShortStamp | Outcome::LongStamp => Outcome::Foreign,
            Outcome::AnsweredSbfd | Outcome::MalformedSbfd => Outcome::Unrelated,
            _ => continue,
        };
        assert_eq!(
            run(&case.frame, &node),
            (expected, case.frame),
            "{}",
            case.name
        );
    }
}

#[test]
fn plain_stamp_is_answered_as_rfc_8762_says() {
    let node = test_node();
    let sent = StampBase::request(9, NtpTime(0x0102_0304_0506_0708), 0x8001, 0xcafe);
    let mut spec = FrameSpec::new(&sent.to_bytes(0));
    spec.payload.extend([0x80, 1, 0, 2, 0xab, 0xcd]);
    let (_, after) = run(&spec.build(), &node);
    let payload = assert_reply(&spec, &after, HOP_LIMIT);
    let (reply, ttl) = StampBase::from_bytes(&payload).unwrap();
    let wall = NtpTime::from_unix_nanos(node.now + node.beat.wall_offset_ns);
    assert_eq!((reply.sequence(), reply.ssid()), (9, 0xcafe));
    assert_eq!((reply.timestamp(), reply.receive_timestamp()), (wall, wall));
    assert_eq!(reply.error_estimate(), node.config.error_estimate);
    assert_eq!(
        (reply.sender_sequence(), reply.sender_timestamp()),
        (9, sent.timestamp())
    );
    assert_eq!(
        &payload[36..38],
        &[0x80, 0x01],
        "the sender's error estimate"
    );
    assert_eq!(&payload[38..40], &[0, 0]);
    assert_eq!((ttl, &payload[41..44]), (spec.ttl, &[0, 0, 0][..]));
    assert_eq!(
        &payload[44..],
        &spec.payload[44..],
        "TLVs come back as they are"
    );
}

#[test]
fn sbfd_is_up_with_the_agent_and_admin_down_without() {
    let mut node = test_node();
    let case = cases()
        .into_iter()
        .find(|case| case.name == "S-BFD")
        .unwrap();
    let (spec, hop_limit) = case.reply.unwrap();
    let up = assert_reply(&spec, &run(&case.frame, &node).1, hop_limit);
    assert_eq!(
        up,
        [
            0x20, 0xc0, 3, 24, 0, 0, 0, 77, 0, 0, 0, 9, 0, 0, 0xc3, 0x50, 0, 0, 0x27, 0x10, 0, 0,
            0, 0
        ]
    );
    node.now = node.beat.deadline_ns + 1;
    let down = assert_reply(&spec, &run(&case.frame, &node).1, hop_limit);
    assert_eq!(down[..2], [0x27, 0x00], "AdminDown, administratively down");
    assert_eq!(down[2..], up[2..]);
}

#[test]
fn an_sbfd_poll_is_answered_with_final() {
    let node = test_node();
    let case = cases()
        .into_iter()
        .find(|case| case.name == "S-BFD")
        .unwrap();
    let (mut spec, hop_limit) = case.reply.unwrap();
    spec.payload[1] |= 0x20;
    let reply = assert_reply(&spec, &run(&spec.build(), &node).1, hop_limit);
    assert_eq!(reply[1], 0xd0);
}
