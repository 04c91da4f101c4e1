//! The fence as a filter of the clsact queueing discipline, for kernels before 6.6.
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

use super::status::program;
use super::{FenceHook, Fenced, NotFenced};
use crate::kernel::cause::os_error;
use crate::kernel::error::KernelError;
use crate::kernel::{kernel_programs, sys};

const PREFIX: &str = "clsact_";
/// The lowest there is: filters run in the order of their priorities.
const PRIORITY: u16 = 1;
/// Ours among the filters of that priority.
const HANDLE: TcHandle = TcHandle::new(0x7075, 0x6c73);

/// A filter, as its pin tells.
pub(in crate::kernel) struct Pin {
    pub(in crate::kernel) path: PathBuf,
    pub(in crate::kernel) interface_index: u32,
    /// The program's name.
    pub(in crate::kernel) program: &'static str,
}

/// The filters that are pinned in `directory`.
pub(in crate::kernel) fn scan(directory: &Path) -> Result<Vec<Pin>, KernelError> {
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
pub(in crate::kernel) fn parse(path: PathBuf) -> Option<Pin> {
    let name = path.file_name()?.to_str()?;
    let (index, program) = name.strip_prefix(PREFIX)?.split_once('_')?;
    let program = kernel_programs::FENCES
        .into_iter()
        .find(|it| *it == program)?;
    let interface_index = index.parse().ok()?;
    Some(Pin {
        path,
        interface_index,
        program,
    })
}

impl Pin {
    pub(super) fn new(directory: &Path, interface_index: u32, program: &'static str) -> Self {
        Self {
            path: directory.join(format!("{PREFIX}{interface_index}_{program}")),
            interface_index,
            program,
        }
    }

    /// The device's name, if it is still there.
    fn device(&self) -> Option<String> {
        let name = nix::net::if_::if_indextoname(self.interface_index).ok()?;
        name.into_string().ok()
    }
}

/// Puts this build's program into the filter of a device, or makes that filter, and pins it. No
/// packet meets the device without a fence if it had one.
pub(super) fn install(programs: &mut Ebpf, pin: &Pin, device: &str) -> Result<(), KernelError> {
    let classifier = kernel_programs::classifier(programs, pin.program)?;
    put(classifier, device).map_err(|source| KernelError::Program {
        action: "attach",
        program: pin.program,
        source,
    })?;
    kernel_programs::pin_at(programs, pin.program, &pin.path)
}

/// Puts this build's programs into the filters of the pins in `from`, and moves these to `to`.
/// Returns how many filters go on.
pub(in crate::kernel) fn adopt(
    programs: &mut Ebpf,
    from: &Path,
    to: &Path,
) -> Result<usize, KernelError> {
    let mut adopted = 0;
    for old in scan(from)? {
        if let Some(device) = old.device() {
            let new = Pin::new(to, old.interface_index, old.program);
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

fn put(classifier: &mut SchedClassifier, device: &str) -> Result<(), ProgramError> {
    match replace(classifier, device) {
        Err(error) if is_missing(&error) => {}
        result => return result,
    }
    match tc::qdisc_add_clsact(device) {
        Ok(()) | Err(TcError::AlreadyAttached) => {}
        Err(error) if os_error(&error) == Some(libc::EEXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let options = TcAttachOptions::Netlink(NlOptions {
        priority: PRIORITY,
        handle: HANDLE,
        classid: None,
    });
    let id = classifier.attach_with_options(device, TcAttachType::Egress, options)?;
    keep(classifier.take_link(id)?);
    Ok(())
}

fn replace(classifier: &mut SchedClassifier, device: &str) -> Result<(), ProgramError> {
    let id = classifier.attach_to_link(filter(device)?)?;
    keep(classifier.take_link(id)?);
    Ok(())
}

/// Removes the filter that a pin stands for, and the pin. A device that is gone has taken its filter
/// along.
pub(in crate::kernel) fn remove(pin: &Pin) -> Result<(), KernelError> {
    if let Some(device) = pin.device() {
        let removed = filter(&device)
            .map_err(ProgramError::from)
            .and_then(Link::detach);
        match removed {
            Err(error) if !is_missing(&error) => {
                return Err(KernelError::Program {
                    action: "detach",
                    program: pin.program,
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

/// Whether anything comes before the filter: where the kernel has TCX, every program of its chain
/// does.
pub(super) fn check(device: &str, index: u32) -> Result<Fenced, NotFenced> {
    // A kernel that cannot say has no TCX.
    let chain = sys::tcx_egress_chain(index).unwrap_or_default();
    match chain.first() {
        None => Ok(Fenced {
            device: device.to_owned(),
            interface_index: index,
            hook: FenceHook::Clsact,
            displaced_by: None,
        }),
        Some(first) => Err(NotFenced {
            device: device.to_owned(),
            reason: format!("TCX {} is ahead of the filter", program(first.program_id)),
        }),
    }
}

/// The fixed place where the filter of a device is.
fn filter(device: &str) -> io::Result<SchedClassifierLink> {
    SchedClassifierLink::attached(device, TcAttachType::Egress, PRIORITY, HANDLE, None)
}

/// Leaves a filter where it is. Dropped, it would be detached.
fn keep(link: SchedClassifierLink) {
    std::mem::forget(link);
}

/// Whether there is no such filter, or not even the queueing discipline.
fn is_missing(error: &ProgramError) -> bool {
    matches!(os_error(error), Some(libc::ENOENT | libc::EINVAL))
}
