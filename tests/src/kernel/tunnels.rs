//! The tunnel counters on the test bench.

use std::time::Duration;

use anyhow::{Result, bail};
use aya::programs::{SchedClassifier, TestRun, TestRunOptions, Xdp};
use aya_obj::programs::XdpAttachType;
use probe_ebpf::maps::TunnelConfig;
use probe_ebpf::tunnel::{Direction, LinkLayer};
use probe_user::kernel::{Kernel, LoadOptions, Peer, Tunnels};

use super::{FRAME_ROOM, TCX_NEXT, XDP_PASS};
use crate::pins::PinDir;

/// Where in `struct __sk_buff` the number and the size of a large packet's pieces are, and how long
/// it is.
const GSO_SEGS: usize = 164;
const GSO_SIZE: usize = 176;
const SKB_CONTEXT: usize = 192;
/// As the interface on which it runs a packet, BPF_PROG_TEST_RUN tells an XDP program the loopback
/// interface.
pub const XDP_INTERFACE: u32 = 1;

/// A packet that the kernel will cut up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gso {
    /// Pieces.
    pub segments: u32,
    /// Bytes in each.
    pub size: u32,
}

/// The loaded programs and their maps, pinned in a directory of their own until dropped.
pub struct Counters {
    kernel: Kernel,
    xdp: Xdp,
    tunnels: Tunnels,
    // Last, so that the pins go when nothing uses them any more.
    _pins: PinDir,
}

impl Counters {
    /// Loads the programs, with room for so many tunnels.
    ///
    /// # Errors
    /// Not root, no bpffs, or the workspace was built without kernel programs.
    pub fn load(purpose: &str, peers: Option<u32>) -> Result<Self> {
        let pins = PinDir::new(purpose)?;
        let options = LoadOptions {
            tunnel_peers: peers,
            ..LoadOptions::default()
        };
        let kernel = Kernel::open(pins.path(), options)?;
        let pin = kernel.directory().join("reflect_xdp");
        Ok(Self {
            xdp: Xdp::from_pin(pin, XdpAttachType::Interface)?,
            tunnels: Tunnels::open(kernel.directory())?,
            kernel,
            _pins: pins,
        })
    }

    /// Sets what is counted.
    ///
    /// # Errors
    /// The map cannot be written.
    pub fn configure(&self, config: TunnelConfig) -> Result<()> {
        Ok(self.kernel.configure_tunnels(config)?)
    }

    /// What has been counted.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn peers(&self) -> Result<Vec<Peer>> {
        Ok(self.tunnels.peers()?)
    }

    /// The program for packets of this link layer that go this way.
    ///
    /// # Errors
    /// It is not pinned.
    pub fn program(&self, link: LinkLayer, direction: Direction) -> Result<Counter> {
        let name = match (link, direction) {
            (LinkLayer::Ethernet, Direction::Received) => "tunnel_in",
            (LinkLayer::None, Direction::Received) => "tunnel_in_ip",
            (LinkLayer::Ethernet, Direction::Sent) => "tunnel_out",
            (LinkLayer::None, Direction::Sent) => "tunnel_out_ip",
        };
        let pin = self.kernel.directory().join(name);
        Ok(Counter(SchedClassifier::from_pin(pin)?))
    }

    /// Runs the reflector's XDP program on `frame`, which it has to let pass, and returns the frame
    /// afterwards.
    ///
    /// # Errors
    /// The kernel does not run it, or it does not let the frame pass.
    pub fn pass_xdp(&self, frame: &[u8]) -> Result<Vec<u8>> {
        let mut out = vec![0; FRAME_ROOM];
        let mut options = TestRunOptions::new();
        options.data_in = Some(frame);
        options.data_out = Some(&mut out);
        let result = self.xdp.test_run(options)?;
        if result.return_value != XDP_PASS {
            bail!("the verdict is {}", result.return_value);
        }
        out.truncate(result.data_size_out as usize);
        Ok(out)
    }
}

/// A tunnel counter's program.
pub struct Counter(SchedClassifier);

impl Counter {
    /// Runs the program on `frame`, which it has to let pass, and returns the frame afterwards.
    ///
    /// # Errors
    /// The kernel does not run it, or it does not let the frame pass.
    pub fn pass(&self, frame: &[u8], gso: Gso) -> Result<Vec<u8>> {
        let mut out = vec![0; frame.len().max(FRAME_ROOM)];
        let mut context = [0; SKB_CONTEXT];
        context[GSO_SEGS..GSO_SEGS + 4].copy_from_slice(&gso.segments.to_ne_bytes());
        context[GSO_SIZE..GSO_SIZE + 4].copy_from_slice(&gso.size.to_ne_bytes());
        let mut options = TestRunOptions::new();
        options.data_in = Some(frame);
        options.data_out = Some(&mut out);
        options.ctx_in = Some(&context);
        let result = self.0.test_run(options)?;
        if result.return_value != TCX_NEXT {
            bail!("the verdict is {}", result.return_value);
        }
        out.truncate(result.data_size_out as usize);
        Ok(out)
    }

    /// How long one run on `frame` takes.
    ///
    /// # Errors
    /// The kernel does not run it.
    pub fn time(&self, frame: &[u8], repeat: u32) -> Result<Duration> {
        let mut options = TestRunOptions::new();
        options.data_in = Some(frame);
        options.repeat = repeat;
        Ok(self.0.test_run(options)?.duration)
    }
}
