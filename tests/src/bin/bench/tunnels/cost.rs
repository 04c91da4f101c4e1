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
/// Single runs of all rounds together.
const RUNS: usize = 31 * 1024;
const ROOM: u32 = 16_384;
const VXLAN: u16 = 4789;

/// What is measured, and the packets of which peers.
struct Subject {
    label: &'static str,
    counters: Option<(Counters, Counter)>,
    frames: Vec<Vec<u8>>,
    /// Of each round on one frame again and again, and of all single runs.
    warm: Vec<f64>,
    cold: Vec<f64>,
}

impl Subject {
    fn bare() -> Self {
        Self::new("a program that does nothing", None, vec![other()])
    }

    fn counting(label: &'static str, peers: u32) -> Result<Self> {
        let counters = Counters::load("bench-tunnels", Some(ROOM))?;
        counters.configure(tunnel_config(false))?;
        let counter = counters.program(LinkLayer::Ethernet, Direction::Received)?;
        let frames: Vec<_> = match peers {
            0 => vec![other()],
            _ => (0..peers).map(vxlan).collect(),
        };
        for frame in &frames {
            counter.time(frame, 1)?;
        }
        Ok(Self::new(label, Some((counters, counter)), frames))
    }

    fn new(
        label: &'static str,
        counters: Option<(Counters, Counter)>,
        frames: Vec<Vec<u8>>,
    ) -> Self {
        Self {
            label,
            counters,
            frames,
            warm: Vec::new(),
            cold: Vec::new(),
        }
    }

    fn round(&mut self, bare: &Bare, round: usize) -> Result<()> {
        let time = |frame: &[u8], repeat| match &self.counters {
            Some((_, counter)) => nanos(counter, frame, repeat),
            None => bare.time(frame, repeat),
        };
        let first = self.frames.first().context("no frame")?;
        self.warm.push(time(first, REPEAT)?);
        let runs = RUNS / ROUNDS;
        for frame in self.frames.iter().cycle().skip(round * runs).take(runs) {
            self.cold.push(time(frame, 1)?);
        }
        Ok(())
    }
}

pub(super) fn run() -> Result<()> {
    let reflector = Reflector::load("bench")?;
    let mut object = bench::open(&reflector)?;
    let bare = Bare::load(&mut object)?;
    let mut subjects = vec![Subject::bare()];
    for (label, peers) in [
        ("no tunnel's packet", 0),
        ("1 peer", 1),
        ("256 peers", 256),
        ("16384 peers", 16_384),
    ] {
        subjects.push(Subject::counting(label, peers)?);
    }
    // In turn: what the machine does besides is the same for all.
    for round in 0..ROUNDS {
        for subject in &mut subjects {
            subject.round(&bare, round)?;
        }
    }
    println!("Cost of a packet by BPF_PROG_TEST_RUN, ns, median of {ROUNDS} rounds:");
    println!("                                   one peer again and again   peers in turn");
    for Subject {
        label, warm, cold, ..
    } in subjects
    {
        let (warm, cold) = (median(warm), median(cold));
        println!("  {label:<32}    {warm:8.1}              {cold:8.1}");
    }
    println!("  (in turn: one run each, with what it takes to begin one)\n");
    Ok(())
}

fn other() -> Vec<u8> {
    FrameSpec::new(&[8; 58]).to_port(53).build()
}

fn vxlan(peer: u32) -> Vec<u8> {
    let address = Ipv4Addr::from(0x0a08_0000 + peer);
    FrameSpec::new(&[8; 58])
        .from_address(address)
        .to_port(VXLAN)
        .build()
}

fn nanos(counter: &Counter, frame: &[u8], repeat: u32) -> Result<f64> {
    Ok(counter.time(frame, repeat)?.as_nanos() as f64)
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
