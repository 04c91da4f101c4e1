//! The kernel programs on the test bench: loaded and pinned as the agent does it, their maps filled
//! from a [`HostNode`], and run on single frames through BPF_PROG_TEST_RUN. Nothing is attached.

pub mod bench;
pub mod tunnels;

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use aya::maps::{Array, Map, MapData};
use aya::programs::{SchedClassifier, TestRun, TestRunOptions, Xdp};
use aya_obj::programs::XdpAttachType;
use probe_ebpf::fence::{FenceOutcome, LinkLayer};
use probe_ebpf::maps::NodeLease;
use probe_ebpf::outcome::{Outcome, Verdict};
use probe_ebpf::testing::{HostGuards, HostNode};
use probe_user::kernel::{Fence, Kernel, LoadOptions, WitnessSet};

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

/// `NODE_LEASE`'s value as words: tests put the lease where the kernel alone does else.
const LEASE_WORDS: usize = size_of::<NodeLease>() / 8;
/// Where in them the end of the lease is.
const LEASE_EXPIRES: usize = std::mem::offset_of!(NodeLease, expires_ns) / 8;

/// The loaded programs and their maps, pinned in a directory of their own until dropped.
pub struct Reflector {
    kernel: Kernel,
    xdp: Xdp,
    tcx: SchedClassifier,
    fence: SchedClassifier,
    fence_ip: SchedClassifier,
    guards: Fence,
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
        let kernel = Kernel::open(pins.path(), LoadOptions::default())?;
        let directory = kernel.directory();
        let xdp = Xdp::from_pin(directory.join("reflect_xdp"), XdpAttachType::Interface)?;
        let tcx = SchedClassifier::from_pin(directory.join("reflect_tcx"))?;
        let fence = SchedClassifier::from_pin(directory.join("fence"))?;
        let fence_ip = SchedClassifier::from_pin(directory.join("fence_ip"))?;
        let guards = Fence::open(directory)?;
        Ok(Self {
            kernel,
            xdp,
            tcx,
            fence,
            fence_ip,
            guards,
            _pins: pins,
        })
    }

    /// Where the maps are pinned.
    pub fn directory(&self) -> &Path {
        self.kernel.directory()
    }

    /// Makes the kernel's node this one, but for the clock and the lease, and takes over its
    /// incarnation.
    ///
    /// # Errors
    /// A map cannot be written.
    pub fn configure(&mut self, node: &mut HostNode) -> Result<()> {
        let maps = self.kernel.maps_mut();
        maps.set_config(&node.config)?;
        maps.set_keys(&node.keys)?;
        maps.set_beat(&node.beat)?;
        maps.set_witnesses(&WitnessSet {
            version: node.assignment.witness_version,
            instances: node
                .witnesses
                .iter()
                .map(|(instance, _)| *instance)
                .collect(),
        })?;
        maps.set_lease_limit(node.assignment.lease_limit_ms)?;
        maps.set_applied_epoch(node.assignment.applied_epoch)?;
        node.assignment.incarnation = maps.assignment()?.incarnation;
        Ok(())
    }

    /// The lease as the kernel has it.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn lease(&self) -> Result<NodeLease> {
        Ok(self.kernel.maps().lease()?)
    }

    /// Makes the lease one that nobody ever asked for and that ends at `expires_ns`.
    ///
    /// # Errors
    /// The map cannot be written.
    pub fn set_lease(&self, expires_ns: u64) -> Result<()> {
        let map = MapData::from_pin(self.directory().join("NODE_LEASE"))?;
        let mut map: Array<MapData, [u64; LEASE_WORDS]> = Map::from_map_data(map)?.try_into()?;
        let mut lease = [0; LEASE_WORDS];
        lease[LEASE_EXPIRES] = expires_ns;
        Ok(map.set(0, lease, 0)?)
    }

    /// Guards what [`HostGuards::entries`] lists.
    ///
    /// # Errors
    /// The map cannot be written.
    pub fn guard(&mut self) -> Result<()> {
        for (address, guard) in HostGuards::entries() {
            self.guards.guard(address, guard)?;
        }
        Ok(())
    }

    /// Runs the fence once on `frame`, as on a device with this link layer: whether it passes.
    ///
    /// # Errors
    /// The kernel does not run the program, or it returns what is no verdict.
    pub fn passes_fence(&self, link: LinkLayer, frame: &[u8]) -> Result<bool> {
        let (returned, _) = self.time_fence(link, frame, 1)?;
        match returned {
            TCX_NEXT => Ok(true),
            TCX_DROP => Ok(false),
            other => bail!("the fence returned {other}, which is no verdict of its own"),
        }
    }

    /// Runs the fence many times on `frame`: what it returned last, and how long one run took.
    ///
    /// # Errors
    /// The kernel does not run the program.
    pub fn time_fence(
        &self,
        link: LinkLayer,
        frame: &[u8],
        repeat: u32,
    ) -> Result<(u32, Duration)> {
        let mut options = TestRunOptions::new();
        options.data_in = Some(frame);
        options.repeat = repeat;
        let program = match link {
            LinkLayer::Ethernet => &self.fence,
            LinkLayer::None => &self.fence_ip,
        };
        let result = program.test_run(options)?;
        Ok((result.return_value, result.duration))
    }

    /// Packets counted at the fence under `outcome`, all CPUs together.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn counted_at_fence(&self, outcome: FenceOutcome) -> Result<u64> {
        let counters = self.guards.counters()?;
        Ok(counters
            .iter()
            .filter(|counter| counter.outcome == outcome)
            .map(|c| c.packets)
            .sum())
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
