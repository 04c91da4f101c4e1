//! The kernel programs on the test bench: loaded and pinned as the agent does it, their maps filled
//! from a [`HostNode`], and run on single frames through BPF_PROG_TEST_RUN. Nothing is attached.

use std::path::Path;

use anyhow::{Result, bail};
use aya::programs::{SchedClassifier, TestRun, TestRunOptions, Xdp};
use aya_obj::programs::XdpAttachType;
use probe_ebpf::outcome::{Outcome, Verdict};
use probe_ebpf::testing::HostNode;
use probe_user::kernel::{Kernel, KernelLogLevel};

use crate::pins::PinDir;

const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;
const XDP_TX: u32 = 3;
const TCX_NEXT: u32 = u32::MAX;
const TCX_DROP: u32 = 2;
const TCX_REDIRECT: u32 = 7;
/// Room for a frame that a program gives back.
const FRAME_ROOM: usize = 2048;

/// Which of the two programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// `reflect_xdp`.
    Xdp,
    /// `reflect_tcx`.
    Tcx,
}

impl Program {
    /// Both programs.
    pub const ALL: [Self; 2] = [Self::Xdp, Self::Tcx];

    /// Whether the kernel runs this program on a frame of our making. It refuses XDP frames
    /// without a whole Ethernet header, and tc frames that end inside the IP header.
    pub fn takes(self, frame: &[u8]) -> bool {
        let ip_header = match frame.get(12..14) {
            Some([0x08, 0x00]) => 20,
            Some([0x86, 0xdd]) => 40,
            _ => 0,
        };
        match self {
            Self::Xdp => frame.len() >= 14,
            Self::Tcx => frame.len() > 14 + ip_header,
        }
    }

    fn verdict(self, returned: u32) -> Result<Verdict> {
        match (self, returned) {
            (Self::Xdp, XDP_PASS) | (Self::Tcx, TCX_NEXT) => Ok(Verdict::Pass),
            (Self::Xdp, XDP_DROP) | (Self::Tcx, TCX_DROP) => Ok(Verdict::Drop),
            (Self::Xdp, XDP_TX) | (Self::Tcx, TCX_REDIRECT) => Ok(Verdict::Reply),
            _ => bail!("{self:?} returned {returned}, which is no verdict of ours"),
        }
    }
}

/// The loaded programs and their maps, pinned in a directory of their own until dropped.
pub struct Reflector {
    kernel: Kernel,
    xdp: Xdp,
    tcx: SchedClassifier,
    // Last, so that the pins go when nothing uses them any more.
    _pins: PinDir,
}

impl Reflector {
    /// Loads the programs; their maps are empty but for the incarnation.
    ///
    /// # Errors
    /// Not root, no bpffs, or the workspace was built without kernel programs.
    pub fn load(purpose: &str) -> Result<Self> {
        let pins = PinDir::new(purpose)?;
        let kernel = Kernel::open(pins.path(), KernelLogLevel::Off)?;
        let directory = kernel.directory();
        let xdp = Xdp::from_pin(directory.join("reflect_xdp"), XdpAttachType::Interface)?;
        let tcx = SchedClassifier::from_pin(directory.join("reflect_tcx"))?;
        Ok(Self {
            kernel,
            xdp,
            tcx,
            _pins: pins,
        })
    }

    /// Where the maps are pinned.
    pub fn directory(&self) -> &Path {
        self.kernel.directory()
    }

    /// Makes the kernel's node this one, but for the clock, and takes over its assignment.
    ///
    /// # Errors
    /// A map cannot be written.
    pub fn configure(&mut self, node: &mut HostNode) -> Result<()> {
        let maps = self.kernel.maps_mut();
        maps.set_config(&node.config)?;
        maps.set_keys(&node.keys)?;
        maps.set_beat(&node.beat)?;
        node.assignment = maps.assignment()?;
        Ok(())
    }

    /// Packets counted under `outcome`, all CPUs together.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn counted(&self, outcome: Outcome) -> Result<u64> {
        let counters = self.kernel.maps().counters()?;
        Ok(counters
            .iter()
            .filter(|counter| counter.outcome == outcome)
            .map(|c| c.packets)
            .sum())
    }

    /// Runs `program` once on `frame`: its verdict, and the frame afterwards.
    ///
    /// # Errors
    /// The kernel does not run the program, or it returns what is no verdict.
    pub fn run(&self, program: Program, frame: &[u8]) -> Result<(Verdict, Vec<u8>)> {
        let mut out = vec![0; FRAME_ROOM];
        let mut options = TestRunOptions::new();
        options.data_in = Some(frame);
        options.data_out = Some(&mut out);
        let result = match program {
            Program::Xdp => self.xdp.test_run(options),
            Program::Tcx => self.tcx.test_run(options),
        }?;
        out.truncate(result.data_size_out as usize);
        Ok((program.verdict(result.return_value)?, out))
    }
}
