//! The programs that are measured, and those that measure.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use aya::maps::{Array, MapData, PerCpuArray};
use aya::programs::{ProgramError, TestRun, TestRunAttrs, TestRunOptions, Xdp};
use aya::{Ebpf, EbpfLoader};
use aya_obj::programs::XdpAttachType;
use probe_ebpf::testing::{probe_frame, test_node};
use pulsepath_tests::kernel::Reflector;

/// How often each program is timed.
pub(super) const ROUNDS: usize = 31;
const REPEAT: u32 = 100_000;
const XDP_TX: u32 = 3;
/// Frames that live in the kernel at once while it sends.
const LIVE_BATCH: u32 = 64;
/// The probe's frame, padded to whole words.
const TEMPLATE_WORDS: usize = 19;
const OBJECT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../target/bpf/pulsepath-bench.o"
);
/// The maps that the reflector and the bench's programs share.
const SHARED: [&str; 8] = [
    "PROBE_CONFIG",
    "PROBE_KEYS",
    "AGENT_BEAT",
    "ASSIGNMENT",
    "WITNESSES",
    "NODE_LEASE",
    "REFLECT_STATS",
    "PROBERS",
];

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
        let object = fs::read(OBJECT)
            .with_context(|| format!("read {OBJECT}: run `cargo xtask bench reflector`"))?;
        let mut loader = EbpfLoader::new();
        for map in SHARED {
            loader.map_pin_path(map, reflector.directory().join(map));
        }
        let mut bench = loader.load(&object)?;
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
        frame.resize(TEMPLATE_WORDS * 8, 0);
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
        let mut template = [0; TEMPLATE_WORDS];
        for (word, chunk) in template.iter_mut().zip(frame.as_chunks::<8>().0) {
            *word = u64::from_ne_bytes(*chunk);
        }
        let map = self.bench.map_mut("TEMPLATE").context("no map TEMPLATE")?;
        let mut map: Array<&mut MapData, [u64; TEMPLATE_WORDS]> = map.try_into()?;
        Ok(map.set(0, template, 0)?)
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
