//! Programs as filters of the clsact queueing discipline, for kernels before 6.6.
//!
//! Such a filter is no link that could be pinned: it stays until it is removed, and is found again
//! by its fixed priority and handle. The pin that stands for it holds the program, and says by its
//! name on which device the filter is.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use aya::Ebpf;
use aya::programs::links::Link;
use aya::programs::tc::{NlOptions, SchedClassifierLink, TcAttachOptions, TcError, TcHandle};
use aya::programs::{ProgramError, SchedClassifier, TcAttachType, tc};
use nix::libc;

use super::cause::os_error;
use super::error::KernelError;
use super::kernel_programs;
use super::links::LinkKind;

const PREFIX: &str = "clsact_";
/// Ours among the filters of a priority.
const HANDLE: TcHandle = TcHandle::new(0x7075, 0x6c73);

/// A filter, as its pin tells.
pub(super) struct Pin {
    pub(super) path: PathBuf,
    pub(super) interface_index: u32,
    /// What the program is there for.
    pub(super) kind: LinkKind,
}

/// Where the filter of a program is. Filters run in the order of their priorities, of which 1 is the
/// lowest there is.
fn place(kind: LinkKind) -> (TcAttachType, u16) {
    match kind {
        LinkKind::TunnelIn | LinkKind::TunnelInIp => (TcAttachType::Ingress, 1),
        LinkKind::TunnelOut | LinkKind::TunnelOutIp => (TcAttachType::Egress, 2),
        LinkKind::Xdp | LinkKind::Tcx | LinkKind::Fence | LinkKind::FenceIp => {
            (TcAttachType::Egress, 1)
        }
    }
}

/// The filters that are pinned in `directory`.
pub(super) fn scan(directory: &Path) -> Result<Vec<Pin>, KernelError> {
    let mut pins = Vec::new();
    let entries = fs::read_dir(directory).map_err(KernelError::file("list", directory))?;
    for entry in entries {
        let path = entry.map_err(KernelError::file("list", directory))?.path();
        pins.extend(parse(path));
    }
    pins.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(pins)
}

/// What a pin says, if it stands for a filter.
pub(super) fn parse(path: PathBuf) -> Option<Pin> {
    let name = path.file_name()?.to_str()?;
    let (index, kind) = name.strip_prefix(PREFIX)?.split_once('_')?;
    let kind = LinkKind::of_filter(kind)?;
    let interface_index = index.parse().ok()?;
    Some(Pin {
        path,
        interface_index,
        kind,
    })
}

impl Pin {
    pub(super) fn new(directory: &Path, interface_index: u32, kind: LinkKind) -> Self {
        Self {
            path: directory.join(format!("{PREFIX}{interface_index}_{}", kind.suffix())),
            interface_index,
            kind,
        }
    }

    /// The device's name, if it is still there.
    fn device(&self) -> Option<String> {
        let name = nix::net::if_::if_indextoname(self.interface_index).ok()?;
        name.into_string().ok()
    }
}

/// Puts this build's program into the filter of a device, or makes that filter, and pins it. No
/// packet meets the device without the program if it had it.
pub(super) fn install(programs: &mut Ebpf, pin: &Pin, device: &str) -> Result<(), KernelError> {
    let program = pin.kind.program();
    let classifier = kernel_programs::classifier(programs, program)?;
    put(classifier, pin.kind, device).map_err(|source| KernelError::Program {
        action: "attach",
        program,
        source,
    })?;
    kernel_programs::pin_at(programs, program, &pin.path)
}

/// Puts this build's programs into the filters of the pins in `from`, and moves these to `to`.
/// Returns how many filters go on.
pub(super) fn adopt(programs: &mut Ebpf, from: &Path, to: &Path) -> Result<usize, KernelError> {
    let mut adopted = 0;
    for old in scan(from)? {
        if let Some(device) = old.device() {
            let new = Pin::new(to, old.interface_index, old.kind);
            install(programs, &new, &device)?;
            adopted += 1;
            if new.path == old.path {
                continue;
            }
        }
        fs::remove_file(&old.path).map_err(KernelError::file("remove", &old.path))?;
    }
    Ok(adopted)
}

fn put(classifier: &mut SchedClassifier, kind: LinkKind, device: &str) -> Result<(), ProgramError> {
    match replace(classifier, kind, device) {
        Err(error) if is_missing(&error) => {}
        result => return result,
    }
    match tc::qdisc_add_clsact(device) {
        Ok(()) | Err(TcError::AlreadyAttached) => {}
        Err(error) if os_error(&error) == Some(libc::EEXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let (direction, priority) = place(kind);
    let options = TcAttachOptions::Netlink(NlOptions {
        priority,
        handle: HANDLE,
        classid: None,
    });
    let id = classifier.attach_with_options(device, direction, options)?;
    keep(classifier.take_link(id)?);
    Ok(())
}

fn replace(
    classifier: &mut SchedClassifier,
    kind: LinkKind,
    device: &str,
) -> Result<(), ProgramError> {
    let id = classifier.attach_to_link(filter(kind, device)?)?;
    keep(classifier.take_link(id)?);
    Ok(())
}

/// Removes the filter that a pin stands for, and the pin. A device that is gone has taken its filter
/// along.
pub(super) fn remove(pin: &Pin) -> Result<(), KernelError> {
    if let Some(device) = pin.device() {
        let removed = filter(pin.kind, &device)
            .map_err(ProgramError::from)
            .and_then(Link::detach);
        match removed {
            Err(error) if !is_missing(&error) => {
                return Err(KernelError::Program {
                    action: "detach",
                    program: pin.kind.program(),
                    source: error,
                });
            }
            _ => {}
        }
    }
    match fs::remove_file(&pin.path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(KernelError::file("remove", &pin.path)(error))
        }
        _ => Ok(()),
    }
}

/// The fixed place where the filter of a device is.
fn filter(kind: LinkKind, device: &str) -> io::Result<SchedClassifierLink> {
    let (direction, priority) = place(kind);
    SchedClassifierLink::attached(device, direction, priority, HANDLE, None)
}

/// Leaves a filter where it is. Dropped, it would be detached.
fn keep(link: SchedClassifierLink) {
    std::mem::forget(link);
}

/// Whether there is no such filter, or not even the queueing discipline.
fn is_missing(error: &ProgramError) -> bool {
    matches!(os_error(error), Some(libc::ENOENT | libc::EINVAL))
}
