//! Links that are pinned: what they hold, and how their program is replaced.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use aya::Ebpf;
use aya::programs::ProgramError;
use aya::programs::links::{FdLink, LinkError, PinnedLink as AyaPinnedLink};
use aya::programs::tc::SchedClassifierLink;
use aya::programs::xdp::XdpLink;
use probe_ebpf::tunnel::{Direction, LinkLayer};

use super::error::KernelError;
use super::kernel_programs::{
    self, FENCE, FENCE_IP, REFLECT_TCX, REFLECT_XDP, TUNNEL_IN, TUNNEL_IN_IP, TUNNEL_OUT,
    TUNNEL_OUT_IP,
};
use super::sys;
use crate::interfaces::Interface;

const PREFIX: &str = "link_";
/// What a pin's name ends with while its link takes over from the one of the same name without.
pub(super) const TAKING_OVER: &str = "_new";

/// Values of `linux/if_arp.h`: devices whose packets begin with an Ethernet header, and those whose
/// packets begin with IP.
const WITH_ETHERNET: [u16; 2] = [1, 772];
const WITHOUT_HEADER: [u16; 6] = [65534, 519, 768, 769, 776, 512];

/// What comes first in a device's packets; `None`: something that no program of ours can read.
pub(super) fn link_layer(device: &Interface) -> Option<LinkLayer> {
    if WITH_ETHERNET.contains(&device.link_type) {
        Some(LinkLayer::Ethernet)
    } else if WITHOUT_HEADER.contains(&device.link_type) {
        Some(LinkLayer::None)
    } else {
        None
    }
}

/// Which hook a link is on, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// XDP, native or generic.
    Xdp,
    /// The reflector on TCX ingress.
    Tcx,
    /// The fence on TCX egress, of a device with Ethernet headers.
    Fence,
    /// The fence on TCX egress, of a device without.
    FenceIp,
    /// The tunnel counter on TCX ingress, of a device with Ethernet headers.
    TunnelIn,
    /// The same of a device without.
    TunnelInIp,
    /// The tunnel counter on TCX egress, of a device with Ethernet headers.
    TunnelOut,
    /// The same of a device without.
    TunnelOutIp,
}

impl LinkKind {
    /// All that may be TCX links.
    const ON_TCX: [Self; 7] = [
        Self::Tcx,
        Self::Fence,
        Self::FenceIp,
        Self::TunnelIn,
        Self::TunnelInIp,
        Self::TunnelOut,
        Self::TunnelOutIp,
    ];

    pub(super) const fn fence(link: LinkLayer) -> Self {
        match link {
            LinkLayer::Ethernet => Self::Fence,
            LinkLayer::None => Self::FenceIp,
        }
    }

    pub(super) const fn tunnel(link: LinkLayer, direction: Direction) -> Self {
        match (link, direction) {
            (LinkLayer::Ethernet, Direction::Received) => Self::TunnelIn,
            (LinkLayer::None, Direction::Received) => Self::TunnelInIp,
            (LinkLayer::Ethernet, Direction::Sent) => Self::TunnelOut,
            (LinkLayer::None, Direction::Sent) => Self::TunnelOutIp,
        }
    }

    /// Whether it is a reflector's.
    pub const fn is_reflector(self) -> bool {
        matches!(self, Self::Xdp | Self::Tcx)
    }

    /// Whether it is a fence's.
    pub const fn is_fence(self) -> bool {
        matches!(self, Self::Fence | Self::FenceIp)
    }

    /// Which way the packets go that it counts, if it is a tunnel counter's.
    pub const fn counts(self) -> Option<Direction> {
        match self {
            Self::TunnelIn | Self::TunnelInIp => Some(Direction::Received),
            Self::TunnelOut | Self::TunnelOutIp => Some(Direction::Sent),
            Self::Xdp | Self::Tcx | Self::Fence | Self::FenceIp => None,
        }
    }

    /// The end of its pin's name.
    pub(super) const fn suffix(self) -> &'static str {
        match self {
            Self::Xdp => "xdp",
            Self::Tcx => "tcx",
            _ => self.program(),
        }
    }

    pub(super) const fn program(self) -> &'static str {
        match self {
            Self::Xdp => REFLECT_XDP,
            Self::Tcx => REFLECT_TCX,
            Self::Fence => FENCE,
            Self::FenceIp => FENCE_IP,
            Self::TunnelIn => TUNNEL_IN,
            Self::TunnelInIp => TUNNEL_IN_IP,
            Self::TunnelOut => TUNNEL_OUT,
            Self::TunnelOutIp => TUNNEL_OUT_IP,
        }
    }

    /// What a clsact filter is, by the end of its pin's name.
    pub(super) fn of_filter(suffix: &str) -> Option<Self> {
        Self::ON_TCX
            .into_iter()
            .find(|kind| !kind.is_reflector() && kind.suffix() == suffix)
    }

    /// What a link is by its type and its pin's name.
    fn of(info: &sys::LinkInfo, path: &Path) -> Option<Self> {
        match info.link_type {
            sys::LINK_TYPE_XDP => Some(Self::Xdp),
            sys::LINK_TYPE_TCX => {
                let name = path.file_name()?.to_str()?;
                let name = name.strip_suffix(TAKING_OVER).unwrap_or(name);
                let (_, suffix) = name.strip_prefix(PREFIX)?.split_once('_')?;
                Self::ON_TCX
                    .into_iter()
                    .find(|kind| kind.suffix() == suffix)
            }
            _ => None,
        }
    }

    /// Where the link of this kind for an interface is pinned.
    pub(super) fn pin(self, directory: &Path, interface_index: u32) -> PathBuf {
        directory.join(format!("{PREFIX}{interface_index}_{}", self.suffix()))
    }
}

/// A link that is pinned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedLink {
    /// The pin.
    pub path: PathBuf,
    /// Which hook it is on.
    pub kind: LinkKind,
    /// The interface, or `None` if that is gone.
    pub interface_index: Option<u32>,
    /// The link's id.
    pub id: u32,
    /// The attached program's id.
    pub program_id: u32,
}

/// The links that are pinned in `directory`, by name.
pub fn scan(directory: &Path) -> Result<Vec<PinnedLink>, KernelError> {
    let mut links = Vec::new();
    let entries = fs::read_dir(directory).map_err(KernelError::file("list", directory))?;
    for entry in entries {
        let path = entry.map_err(KernelError::file("list", directory))?.path();
        if is_link(&path) {
            links.push(examine(path)?);
        }
    }
    links.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(links)
}

/// Asks what a pinned link holds.
pub(super) fn examine(path: PathBuf) -> Result<PinnedLink, KernelError> {
    let info = sys::link_info(&path).map_err(KernelError::file("examine the link", &path))?;
    let Some(kind) = LinkKind::of(&info, &path) else {
        let source = LinkError::UnknownLinkType(info.link_type);
        return Err(KernelError::Link { path, source });
    };
    let interface_index = Some(info.interface_index).filter(|&index| index != 0);
    Ok(PinnedLink {
        path,
        kind,
        interface_index,
        id: info.id,
        program_id: info.program_id,
    })
}

/// Removes the links of interfaces that are gone, and returns the others.
pub(super) fn remove_dead(directory: &Path) -> Result<Vec<PinnedLink>, KernelError> {
    let (alive, dead): (Vec<_>, Vec<_>) = scan(directory)?
        .into_iter()
        .partition(|link| link.interface_index.is_some());
    for link in dead {
        remove(&link.path)?;
    }
    Ok(alive)
}

/// Detaches a link and removes its pin.
pub(super) fn remove(path: &Path) -> Result<(), KernelError> {
    let is_gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    for (action, result) in [
        ("detach", sys::detach_link(path)),
        ("remove", fs::remove_file(path)),
    ] {
        match result {
            Err(error) if !is_gone(&error) => return Err(KernelError::file(action, path)(error)),
            _ => {}
        }
    }
    Ok(())
}

/// Whether a pin is a link's, by its name.
pub(super) fn is_link(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with(PREFIX))
}

/// Puts this build's program into a link. No packet meets the interface without a program.
pub(super) fn replace_program(programs: &mut Ebpf, link: &PinnedLink) -> Result<(), KernelError> {
    let program = link.kind.program();
    let failed = |source| KernelError::Program {
        action: "replace",
        program,
        source,
    };
    let link_failed = |source| KernelError::Link {
        path: link.path.clone(),
        source,
    };
    let opened = AyaPinnedLink::from_pin(&link.path)
        .map(FdLink::from)
        .map_err(link_failed)?;
    match link.kind {
        LinkKind::Xdp => {
            let opened = XdpLink::try_from(opened).map_err(link_failed)?;
            let xdp = kernel_programs::xdp(programs)?;
            let id = xdp.attach_to_link(opened).map_err(failed)?;
            drop_descriptor(xdp.take_link(id)).map_err(failed)
        }
        _ => {
            let opened = SchedClassifierLink::try_from(opened).map_err(link_failed)?;
            let classifier = kernel_programs::classifier(programs, program)?;
            let id = classifier.attach_to_link(opened).map_err(failed)?;
            drop_descriptor(classifier.take_link(id)).map_err(failed)
        }
    }
}

/// Closes our descriptor of a link; its pin keeps it.
fn drop_descriptor<T>(link: Result<T, ProgramError>) -> Result<(), ProgramError> {
    link.map(drop)
}
