//! The lease, as the kernel keeps it: every rule and its violation, run by BPF_PROG_TEST_RUN.

#![expect(clippy::unwrap_used, reason = "a test panics to fail")]

use std::time::Duration;

use aya::programs::{TestRun, TestRunOptions, Xdp};
use probe_ebpf::outcome::Verdict;
use probe_ebpf::testing::{
    FrameSpec, HostNode, WITNESSES, assert_reply, lease_cases, request, test_node, witness_set,
};
use probe_ebpf::wire::probe::{Answer, LEASE_HELD, RENEW, Reply, Request, VOTE};
use pulsepath_tests::kernel::{Program, Reflector, bench};

fn configured(purpose: &str) -> (Reflector, HostNode) {
    let mut node = test_node();
    let mut reflector = Reflector::load(purpose).unwrap();
    reflector.configure(&mut node).unwrap();
    (reflector, node)
}

/// What the node answers.
fn ask(reflector: &Reflector, request: &Request) -> Answer {
    let spec = FrameSpec::new(&request.encode(&HostNode::current_key()).to_bytes());
    let (verdict, frame) = reflector.run(Program::Xdp, &spec.build()).unwrap();
    assert_eq!(verdict, Verdict::Reply);
    let payload = assert_reply(&spec, &frame, 64);
    Reply::decode(&payload, |_, _| Some(HostNode::current_key()))
        .unwrap()
        .answer
}

/// A RENEW that echoes what the node has just said.
fn renew(answer: &Answer, lease_ms: u32) -> Request {
    Request {
        flags: RENEW,
        lease_ms,
        epoch_floor: answer.epoch,
        incarnation: answer.incarnation,
        node_time: answer.node_time,
        ..request()
    }
}

#[test]
fn every_case_has_its_outcomes_and_its_lease() {
    let (reflector, node) = configured("lease");
    for program in Program::ALL {
        let now = ask(&reflector, &request()).node_time;
        for case in lease_cases(&node.assignment, now) {
            reflector.set_lease(0).unwrap();
            for (index, step) in case.steps.iter().enumerate() {
                let name = format!("{program:?}: {}, step {index}", case.name);
                let before = reflector.counted(step.expected).unwrap();
                let (verdict, _) = reflector.run(program, &step.frame).unwrap();
                assert_eq!(verdict, step.expected.verdict(), "{name}");
                let after = reflector.counted(step.expected).unwrap();
                assert_eq!(after, before + 1, "{name}: {:?}", step.expected);
            }
            let lease = reflector.lease().unwrap();
            assert_eq!(
                lease.expires_ns, case.expires_ns,
                "{program:?}: {}",
                case.name
            );
        }
    }
}

#[test]
fn a_reply_says_whether_the_lease_is_held_and_for_how_long() {
    let (reflector, node) = configured("held");
    let before = ask(&reflector, &request());
    assert_eq!((before.flags & LEASE_HELD, before.lease_ms), (0, 0));
    let renewed = ask(&reflector, &renew(&before, 2000));
    let plain = ask(&reflector, &request());
    for answer in [renewed, plain] {
        let passed = Duration::from_nanos(answer.node_time - before.node_time);
        let left = Duration::from_secs(2).saturating_sub(passed);
        assert_eq!(answer.flags & LEASE_HELD != 0, !left.is_zero());
        assert_eq!(u128::from(answer.lease_ms), left.as_millis());
        assert_eq!(answer.epoch, node.assignment.applied_epoch);
    }
    reflector.set_lease(plain.node_time).unwrap();
    let lapsed = ask(&reflector, &request());
    assert_eq!((lapsed.flags & LEASE_HELD, lapsed.lease_ms), (0, 0));
}

#[test]
fn a_node_that_has_not_been_told_a_limit_grants_no_lease() {
    let (mut reflector, mut node) = configured("limit");
    node.assignment.lease_limit_ms = 0;
    reflector.configure(&mut node).unwrap();
    let answer = ask(&reflector, &request());
    let renewed = ask(&reflector, &renew(&answer, 1000));
    assert_eq!((renewed.flags & LEASE_HELD, renewed.lease_ms), (0, 0));
    assert_eq!(reflector.lease().unwrap().renewals, 0);
}

#[test]
fn an_epoch_that_the_agent_applies_later_makes_the_same_floor_good() {
    let (mut reflector, mut node) = configured("epoch");
    let answer = ask(&reflector, &request());
    let above = Request {
        epoch_floor: answer.epoch + 1,
        ..renew(&answer, 2000)
    };
    ask(&reflector, &above);
    assert_eq!(reflector.lease().unwrap().expires_ns, 0);
    node.assignment.applied_epoch += 1;
    reflector.configure(&mut node).unwrap();
    ask(&reflector, &above);
    let expires = answer.node_time + 2_000_000_000;
    assert_eq!(reflector.lease().unwrap().expires_ns, expires);
}

#[test]
fn votes_of_a_set_that_was_replaced_do_not_count() {
    let (mut reflector, mut node) = configured("sets");
    let answer = ask(&reflector, &request());
    let vote = |prober| Request {
        flags: VOTE,
        prober,
        ..renew(&answer, 2000)
    };
    let [a, b, c, d, e] = WITNESSES;
    ask(&reflector, &vote(a));
    ask(&reflector, &vote(b));
    node.witnesses = witness_set(5, &[0xb1, b, c, d, e]);
    node.assignment.witness_version = 5;
    reflector.configure(&mut node).unwrap();
    for witness in [a, c, d] {
        ask(&reflector, &vote(witness));
    }
    assert_eq!(reflector.lease().unwrap().expires_ns, 0);
    ask(&reflector, &vote(b));
    let expires = answer.node_time + 2_000_000_000;
    assert_eq!(reflector.lease().unwrap().expires_ns, expires);
}

#[test]
fn probers_whose_requests_were_honoured_are_remembered_as_such() {
    let (reflector, _) = configured("probers");
    let maps = probe_user::kernel::Maps::open(reflector.directory()).unwrap();
    let seen = || maps.probers().unwrap()[0].1;
    let answer = ask(&reflector, &request());
    assert_eq!(seen().honoured_ns, 0);
    let renewed = ask(&reflector, &renew(&answer, 2000));
    assert_eq!(seen().honoured_ns, renewed.node_time);
    ask(&reflector, &request());
    assert_eq!(seen().honoured_ns, renewed.node_time);
}

/// How often each CPU asks.
const REPEAT: u32 = 300_000;

/// Answers `frame` on every CPU at once, each [`REPEAT`] times, on the reflector's maps.
fn ask_on_all_cpus(reflector: &Reflector, frame: &[u8]) {
    let mut frame = frame.to_vec();
    frame.resize(bench::TEMPLATE_WORDS * 8, 0);
    let mut bench = bench::open(reflector).unwrap();
    bench::set_template(&mut bench, &frame).unwrap();
    let program: &mut Xdp = bench
        .program_mut("restore_reflect")
        .unwrap()
        .try_into()
        .unwrap();
    program.load().unwrap();
    let program = &*program;
    std::thread::scope(|scope| {
        for _ in 0..cpus() {
            scope.spawn(|| {
                let mut options = TestRunOptions::new();
                options.data_in = Some(&frame);
                options.repeat = REPEAT;
                program.test_run(options).unwrap();
            });
        }
    });
}

fn cpus() -> usize {
    std::thread::available_parallelism().unwrap().get().max(2)
}

#[test]
fn requests_on_several_cpus_at_once_are_all_counted() {
    let (reflector, _) = configured("cpus");
    let answer = ask(&reflector, &request());
    let asked = u64::from(REPEAT) * cpus() as u64;
    let encode = |request: Request| {
        let payload = request.encode(&HostNode::current_key()).to_bytes();
        FrameSpec::new(&payload).build()
    };
    ask_on_all_cpus(&reflector, &encode(renew(&answer, 2000)));
    let lease = reflector.lease().unwrap();
    assert_eq!((lease.renewals, lease.votes), (asked, 0));
    assert_eq!(lease.expires_ns, answer.node_time + 2_000_000_000);
    let vote = Request {
        flags: VOTE,
        prober: WITNESSES[0],
        ..renew(&answer, 2000)
    };
    ask_on_all_cpus(&reflector, &encode(vote));
    let lease = reflector.lease().unwrap();
    assert_eq!((lease.renewals, lease.votes), (asked, asked));
    assert_eq!(lease.echoed_ns[0], answer.node_time);
}
