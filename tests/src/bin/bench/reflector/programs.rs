//! The programs that are measured, and those that measure.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use aya::Ebpf;
use aya::maps::{MapData, PerCpuArray};
use aya::programs::{ProgramError, TestRun, TestRunAttrs, TestRunOptions, Xdp};
use aya_obj::programs::XdpAttachType;
use probe_ebpf::testing::{probe_frame, test_node};
use pulsepath_tests::kernel::{Reflector, bench};

/// How often each program is timed.
pub(super) const ROUNDS: usize = 31;
const REPEAT: u32 = 100_000;
const XDP_TX: u32 = 3;
/// Frames that live in the kernel at once while it sends.
const LIVE_BATCH: u32 = 64;
/// ns per frame, without what it takes to put the frame back.
pub(super) struct Times {
    pub(super) bare: f64,
    pub(super) macs: f64,
    pub(super) probe: f64,
    pub(super) restore: f64,
}

/// The loaded programs.
pub(super) struct Programs {
    reflector: Reflector,
    bench: Ebpf,
    frame: Vec<u8>,
}

impl Programs {
    pub(super) fn load() -> Result<Self> {
        let mut reflector = Reflector::load("bench")?;
        reflector.configure(&mut test_node())?;
        let mut bench = bench::open(&reflector)?;
        for name in [
            "pass",
            "bare_tx",
            "restore_tx",
            "restore_macs",
            "restore_reflect",
            "sink",
        ] {
            xdp(&mut bench, name)?.load()?;
        }
        let mut frame = probe_frame().build();
        frame.resize(bench::TEMPLATE_WORDS * 8, 0);
        let mut programs = Self {
            reflector,
            bench,
            frame,
        };
        programs.set_template(&programs.frame.clone())?;
        Ok(programs)
    }

    /// Makes `frame` what the sending programs send.
    pub(super) fn set_template(&mut self, frame: &[u8]) -> Result<()> {
        bench::set_template(&mut self.bench, frame)
    }

    /// Times every program in turn, round by round, so that all see the same machine.
    pub(super) fn time(&self) -> Result<Times> {
        let mut samples = [const { Vec::new() }; 4];
        for _ in 0..ROUNDS {
            let names = ["bare_tx", "restore_tx", "restore_macs", "restore_reflect"];
            for (samples, name) in samples.iter_mut().zip(names) {
                samples.push(self.nanos(name)?);
            }
        }
        let [bare, restore, macs, probe] = samples.map(median);
        let restore = restore - bare;
        Ok(Times {
            bare,
            macs: macs - restore,
            probe: probe - restore,
            restore,
        })
    }

    fn nanos(&self, name: &str) -> Result<f64> {
        let program: &Xdp = self
            .bench
            .program(name)
            .context("no such program")?
            .try_into()?;
        let mut options = TestRunOptions::new();
        options.data_in = Some(&self.frame);
        options.repeat = REPEAT;
        let result = program.test_run(options)?;
        ensure!(
            result.return_value == XDP_TX,
            "{name} returned {}",
            result.return_value
        );
        Ok(result.duration.as_nanos() as f64)
    }

    /// Sends the template `count` times out of the interface `index` of this thread's namespace,
    /// as fast as the kernel can.
    pub(super) fn send(&self, index: u32, count: u32) -> Result<()> {
        let program: &Xdp = self
            .bench
            .program("restore_tx")
            .context("no restore_tx")?
            .try_into()?;
        // struct xdp_md: data, data_end, data_meta, ingress_ifindex, rx_queue_index,
        // egress_ifindex.
        let context: Vec<u8> = [0, self.frame.len() as u32, 0, index, 0, 0]
            .into_iter()
            .flat_map(u32::to_ne_bytes)
            .collect();
        let mut options = TestRunOptions::new();
        options.data_in = Some(&self.frame);
        options.ctx_in = Some(&context);
        options.repeat = count;
        options.attrs = TestRunAttrs::new().xdp_live_frames(LIVE_BATCH);
        program
            .test_run(options)
            .map(drop)
            .context("send live frames")
    }

    /// Frames that came back.
    pub(super) fn sunk(&self) -> Result<u64> {
        let map = self.bench.map("SUNK").context("no map SUNK")?;
        let map: PerCpuArray<&MapData, u64> = map.try_into()?;
        Ok(map.get(&0, 0)?.iter().sum())
    }

    /// One of the bench's programs.
    pub(super) fn bench_program(&mut self, name: &str) -> Result<&mut Xdp> {
        xdp(&mut self.bench, name)
    }

    /// The reflector, as the agent would attach it.
    pub(super) fn reflector(&self) -> Result<Xdp, ProgramError> {
        let pin: &Path = &self.reflector.directory().join("reflect_xdp");
        Xdp::from_pin(pin, XdpAttachType::Interface)
    }
}

fn xdp<'a>(programs: &'a mut Ebpf, name: &str) -> Result<&'a mut Xdp> {
    let program = programs
        .program_mut(name)
        .with_context(|| format!("no program {name}"))?;
    Ok(program.try_into()?)
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}
