//! TCP through VXLAN over a veth, with and without counting, in turn.

use std::time::Duration;

use anyhow::Result;
use nix::net::if_::if_nametoindex;
use probe_ebpf::testing::tunnel_config;
use probe_user::interfaces::{Interface, XdpInForce};
use probe_user::kernel::{AttachSetting, Kernel, LoadOptions, TcSetting};
use pulsepath_tests::overlay::Overlay;

use super::{median, quartiles};

/// ARPHRD_ETHER.
const ETHERNET: u16 = 1;

/// What is on both nodes' interfaces.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Setup {
    Nothing,
    Tcx,
    Generic,
    Native,
}

impl Setup {
    const ALL: [Self; 4] = [Self::Nothing, Self::Tcx, Self::Generic, Self::Native];

    const fn label(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Tcx => "counters on TCX",
            Self::Generic => "reflector in generic XDP, counters on TCX",
            Self::Native => "reflector in native XDP that counts what is received, too",
        }
    }

    /// How the reflector is attached, if it is.
    const fn reflector(self) -> Option<AttachSetting> {
        match self {
            Self::Nothing | Self::Tcx => None,
            Self::Generic => Some(AttachSetting::Generic),
            Self::Native => Some(AttachSetting::Native),
        }
    }
}

pub(super) fn run(duration: Duration, rounds: usize) -> Result<()> {
    let overlay = Overlay::new("bench-tunnels", 2)?;
    let mut nodes = [1, 2]
        .map(|index| Node::new(&overlay, index))
        .into_iter()
        .collect::<Result<Vec<_>>>()?;
    let mut measure = |setup| {
        for node in &mut nodes {
            node.set(&overlay, setup)?;
        }
        Ok::<_, anyhow::Error>(overlay.throughput(1, 2, duration)? * 8.0 / 1e9)
    };
    let mut rates = Setup::ALL.map(|_| Vec::new());
    let mut ratios = Setup::ALL.map(|_| Vec::new());
    for _ in 0..rounds {
        for (index, setup) in Setup::ALL.into_iter().enumerate() {
            // Between two of nothing, since what the machine does besides changes all the time.
            let (before, rate) = (measure(Setup::Nothing)?, measure(setup)?);
            let after = measure(Setup::Nothing)?;
            rates[index].push(rate);
            ratios[index].push(2.0 * rate / (before + after));
        }
    }
    println!(
        "TCP through VXLAN over a veth, one stream, median of {rounds} rounds; the ratio is to"
    );
    println!("nothing just before and just after, and the first line shows how exact that is:");
    for ((setup, rates), ratios) in Setup::ALL.into_iter().zip(rates).zip(ratios) {
        let (rate, [low, ratio, high]) = (median(rates), quartiles(ratios));
        println!(
            "  {:<58} {rate:6.2} Gbit/s  ratio {ratio:.3} ({low:.3} to {high:.3})",
            setup.label()
        );
    }
    Ok(())
}

/// A node's programs.
struct Node {
    index: u8,
    kernel: Kernel,
}

impl Node {
    fn new(overlay: &Overlay, index: u8) -> Result<Self> {
        let options = LoadOptions {
            tunnel_peers: Some(1024),
            ..LoadOptions::default()
        };
        let kernel = Kernel::open(overlay.node(index).pin_dir(), options)?;
        Ok(Self { index, kernel })
    }

    fn set(&mut self, overlay: &Overlay, setup: Setup) -> Result<()> {
        let kernel = &mut self.kernel;
        overlay.node(self.index).netns().enter(|| {
            let native = setup == Setup::Native;
            let interface = Interface {
                name: "eth0".to_owned(),
                index: if_nametoindex("eth0")?,
                link_type: ETHERNET,
                xdp: native.then_some(XdpInForce {
                    program_id: 0,
                    native,
                }),
                ..Interface::default()
            };
            kernel.count_no_tunnels()?;
            kernel.detach_others(&[])?;
            if let Some(setting) = setup.reflector() {
                kernel.attach(&interface, setting)?;
            }
            if setup != Setup::Nothing {
                let native = native.then_some(interface.index);
                let config = tunnel_config(false);
                for counted in kernel.count_tunnels(&[interface], native, config, TcSetting::Tcx)? {
                    counted?;
                }
            }
            Ok(())
        })?
    }
}
