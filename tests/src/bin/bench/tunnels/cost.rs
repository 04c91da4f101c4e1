//! ns per packet by BPF_PROG_TEST_RUN, beside a program that does nothing.

use std::net::Ipv4Addr;

use anyhow::{Context, Result};
use aya::Ebpf;
use aya::programs::{SchedClassifier, TestRun, TestRunOptions};
use probe_ebpf::testing::{FrameSpec, tunnel_config};
use probe_ebpf::tunnel::{Direction, LinkLayer};
use pulsepath_tests::kernel::Reflector;
use pulsepath_tests::kernel::bench;
use pulsepath_tests::kernel::tunnels::{Counter, Counters};

use super::median;

const ROUNDS: usize = 31;
const REPEAT: u32 = 100_000;
/// Single runs of a round.
const RUNS: usize = 16_384;
const ROOM: u32 = 16_384;
const VXLAN: u16 = 4789;

pub(super) fn run() -> Result<()> {
    let reflector = Reflector::load("bench")?;
    let mut object = bench::open(&reflector)?;
    let bare = Bare::load(&mut object)?;
    println!("Cost of a packet by BPF_PROG_TEST_RUN, ns, median of {ROUNDS}:");
    println!("                                   one peer again and again   peers in turn");
    let other = FrameSpec::new(&[8; 58]).to_port(53).build();
    let [warm, cold] = time(
        |frame, repeat| bare.time(frame, repeat),
        std::slice::from_ref(&other),
    )?;
    println!("  a program that does nothing         {warm:8.1}              {cold:8.1}");
    for (what, peers) in [
        ("no tunnel's packet", 0),
        ("1 peer", 1),
        ("256 peers", 256),
        ("16384 peers", 16_384),
    ] {
        let counters = Counters::load("bench-tunnels", Some(ROOM))?;
        counters.configure(tunnel_config(false))?;
        let counter = counters.program(LinkLayer::Ethernet, Direction::Received)?;
        let frames: Vec<_> = match peers {
            0 => vec![other.clone()],
            _ => (0..peers).map(vxlan).collect(),
        };
        fill(&counter, &frames)?;
        let [warm, cold] = time(|frame, repeat| nanos(&counter, frame, repeat), &frames)?;
        println!("  {what:<32}    {warm:8.1}              {cold:8.1}");
    }
    println!("  (in turn: one run each, with what it takes to begin one)\n");
    Ok(())
}

fn vxlan(peer: u32) -> Vec<u8> {
    let address = Ipv4Addr::from(0x0a08_0000 + peer);
    FrameSpec::new(&[8; 58])
        .from_address(address)
        .to_port(VXLAN)
        .build()
}

fn fill(counter: &Counter, frames: &[Vec<u8>]) -> Result<()> {
    frames
        .iter()
        .try_for_each(|frame| counter.time(frame, 1).map(drop))
}

fn nanos(counter: &Counter, frame: &[u8], repeat: u32) -> Result<f64> {
    Ok(counter.time(frame, repeat)?.as_nanos() as f64)
}

/// On the first frame again and again, and on all of them in turn.
fn time(run: impl Fn(&[u8], u32) -> Result<f64>, frames: &[Vec<u8>]) -> Result<[f64; 2]> {
    let first = frames.first().context("no frame")?;
    let warm = (0..ROUNDS)
        .map(|_| run(first, REPEAT))
        .collect::<Result<_>>()?;
    let cold = frames.iter().cycle().take(RUNS.max(frames.len()));
    let cold = cold.map(|frame| run(frame, 1)).collect::<Result<_>>()?;
    Ok([median(warm), median(cold)])
}

/// A program that does nothing.
struct Bare<'a>(&'a SchedClassifier);

impl<'a> Bare<'a> {
    fn load(object: &'a mut Ebpf) -> Result<Self> {
        let program = object
            .program_mut("accept")
            .context("no program `accept`")?;
        let program: &mut SchedClassifier = program.try_into()?;
        program.load()?;
        Ok(Self(program))
    }

    fn time(&self, frame: &[u8], repeat: u32) -> Result<f64> {
        let mut options = TestRunOptions::new();
        options.data_in = Some(frame);
        options.repeat = repeat;
        Ok(self.0.test_run(options)?.duration.as_nanos() as f64)
    }
}
