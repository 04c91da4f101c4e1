//! The fence, run on single packets by BPF_PROG_TEST_RUN.

#![expect(clippy::unwrap_used, reason = "a test panics to fail")]

use std::fs;
use std::net::IpAddr;
use std::time::Duration;

use aya::Ebpf;
use aya::programs::{SchedClassifier, TestRun, TestRunOptions};
use probe_ebpf::fence::{FenceOutcome, LinkLayer};
use probe_ebpf::maps::Guard;
use probe_ebpf::testing::{FrameSpec, fence_cases};
use probe_user::kernel::{Fence, KernelError};
use pulsepath_tests::kernel::Reflector;

/// A lease that lasts.
const FOR_EVER: u64 = u64::MAX;

/// Whether the kernel runs a tc program on a packet of our making: it refuses those that end inside
/// an Ethernet or IP header, and takes all for Ethernet frames.
fn is_taken(frame: &[u8]) -> bool {
    let ip_header = match frame.get(12..14) {
        Some([0x08, 0x00]) => 20,
        Some([0x86, 0xdd]) => 40,
        _ => 0,
    };
    frame.len() > 14 + ip_header
}

#[test]
fn every_case_has_its_verdict_and_its_counter_with_a_lease_and_without() {
    let mut reflector = Reflector::load("fence").unwrap();
    reflector.guard().unwrap();
    let (mut run, mut left_out) = (0, 0);
    for (expires, held) in [(FOR_EVER, true), (1, false), (0, false)] {
        reflector.set_lease(expires).unwrap();
        for case in fence_cases() {
            if !is_taken(&case.frame) {
                left_out += 1;
                continue;
            }
            run += 1;
            let name = format!("{}, lease until {expires}", case.name);
            let expected = case.expected(held);
            let before = reflector.counted_at_fence(expected).unwrap();
            let passes = reflector.passes_fence(case.link, &case.frame).expect(&name);
            assert_eq!(passes, !expected.is_fenced(), "{name}");
            let after = reflector.counted_at_fence(expected).unwrap();
            assert_eq!(after, before + 1, "{name}: {expected:?}");
        }
    }
    println!("{run} packets run, {left_out} refused by the kernel itself");
    assert!(run > left_out);
}

#[test]
fn nothing_is_dropped_while_nothing_is_guarded() {
    let reflector = Reflector::load("open").unwrap();
    for case in fence_cases().iter().filter(|case| is_taken(&case.frame)) {
        let passes = reflector.passes_fence(case.link, &case.frame).unwrap();
        assert!(passes, "{}", case.name);
    }
}

#[test]
fn a_guard_takes_effect_with_the_next_packet() {
    let reflector = Reflector::load("guard").unwrap();
    let mut fence = Fence::open(reflector.directory()).unwrap();
    let address: IpAddr = "10.9.8.7".parse().unwrap();
    let frame = FrameSpec::new(&[1; 40]).from_address(address).build();
    let passes = || reflector.passes_fence(LinkLayer::Ethernet, &frame).unwrap();
    assert!(passes(), "not guarded");
    reflector.set_lease(FOR_EVER).unwrap();
    fence.guard(address, Guard::Own).unwrap();
    assert!(passes(), "own, lease held");
    fence.guard(address, Guard::Shut).unwrap();
    assert!(!passes(), "shut");
    fence.guard(address, Guard::Own).unwrap();
    reflector.set_lease(1).unwrap();
    assert!(!passes(), "own, lease over");
    assert_eq!(fence.entries().unwrap(), [(address, Guard::Own)].into());
    assert!(fence.remove(address).unwrap());
    assert!(!fence.remove(address).unwrap(), "it is gone already");
    assert!(passes(), "not guarded any more");
    assert_eq!(fence.entries().unwrap(), [].into());
}

#[test]
fn addresses_that_address_detection_uses_cannot_be_guarded() {
    let reflector = Reflector::load("refused").unwrap();
    let mut fence = Fence::open(reflector.directory()).unwrap();
    for address in ["0.0.0.0", "::", "224.0.0.5", "127.0.0.1"] {
        let error = fence.guard(address.parse().unwrap(), Guard::Own);
        assert!(
            matches!(error, Err(KernelError::Unguardable { .. })),
            "{error:?}"
        );
    }
}

#[test]
fn thousands_of_addresses_are_guarded_at_once() {
    let reflector = Reflector::load("many").unwrap();
    let mut fence = Fence::open(reflector.directory()).unwrap();
    let address = |number: u16| IpAddr::from([10, 5, (number >> 8) as u8, number as u8]);
    for number in 0..5000 {
        fence.guard(address(number), Guard::Shut).unwrap();
    }
    assert_eq!(fence.entries().unwrap().len(), 5000);
    for number in [0, 2500, 4999] {
        let frame = FrameSpec::new(&[1; 40])
            .from_address(address(number))
            .build();
        assert!(!reflector.passes_fence(LinkLayer::Ethernet, &frame).unwrap());
    }
    assert_eq!(
        reflector.counted_at_fence(FenceOutcome::ShutIpv4).unwrap(),
        3
    );
}

const OBJECT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../target/bpf/pulsepath-bench.o"
);
const REPEAT: u32 = 100_000;

/// The best of several: what the machine does besides is not the program's.
fn best(time: impl Fn() -> Duration) -> Duration {
    (0..7).map(|_| time()).min().unwrap()
}

/// What a program costs that does nothing.
fn bare(frame: &[u8]) -> Duration {
    let mut object = Ebpf::load(&fs::read(OBJECT).unwrap()).unwrap();
    let accept: &mut SchedClassifier = object.program_mut("accept").unwrap().try_into().unwrap();
    accept.load().unwrap();
    best(|| {
        let mut options = TestRunOptions::new();
        options.data_in = Some(frame);
        options.repeat = REPEAT;
        accept.test_run(options).unwrap().duration
    })
}

/// What the fence costs, printed. The limit only finds what is out of all proportion.
#[test]
fn a_packet_costs_less_than_a_microsecond() {
    let mut reflector = Reflector::load("cost").unwrap();
    reflector.guard().unwrap();
    reflector.set_lease(FOR_EVER).unwrap();
    println!("a program that does nothing: {:?}", bare(&[0; 64]));
    for name in [
        "UDP from 10.77.9.3",
        "UDP from 10.77.9.1",
        "UDP from 10.77.9.2",
        "UDP from fd77:9::3",
        "UDP from fd77:9::1",
        "advertisement from and of fd77:9::1",
    ] {
        let cases = fence_cases();
        let case = cases.iter().find(|case| case.name == name).unwrap();
        let cost = best(|| {
            reflector
                .time_fence(case.link, &case.frame, REPEAT)
                .unwrap()
                .1
        });
        println!("{name}: {cost:?}");
        assert!(cost < Duration::from_micros(1), "{name}: {cost:?}");
    }
}
