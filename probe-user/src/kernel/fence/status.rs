//! Whether the fence is in force where it was put.

use std::path::Path;

use aya::programs::loaded_programs;

use super::{FenceHook, Fenced, NotFenced};
use crate::kernel::clsact;
use crate::kernel::error::KernelError;
use crate::kernel::links::{self, PinnedLink};
use crate::kernel::sys;

/// Every device that a fence is pinned for, and whether it is in force there.
pub(super) fn status(directory: &Path) -> Result<Vec<Result<Fenced, NotFenced>>, KernelError> {
    let mut devices = Vec::new();
    for link in links::scan(directory)? {
        let Some(index) = link.interface_index.filter(|_| link.kind.is_fence()) else {
            continue;
        };
        devices.push(of_link(&name(index), index, &link));
    }
    for pin in clsact::scan(directory)? {
        if pin.kind.is_fence() {
            devices.push(of_filter(&name(pin.interface_index), pin.interface_index));
        }
    }
    Ok(devices)
}

/// Whether anything comes before the filter of a device: where the kernel has TCX, every program of
/// its chain does.
pub(super) fn of_filter(device: &str, index: u32) -> Result<Fenced, NotFenced> {
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

/// Whether a link is first in its device's chain.
pub(super) fn of_link(device: &str, index: u32, link: &PinnedLink) -> Result<Fenced, NotFenced> {
    let not_fenced = |reason| NotFenced {
        device: device.to_owned(),
        reason,
    };
    let chain = sys::tcx_egress_chain(index)
        .map_err(|error| not_fenced(format!("its TCX chain cannot be read ({error})")))?;
    match chain.first() {
        Some(first) if first.link_id == link.id => Ok(Fenced {
            device: device.to_owned(),
            interface_index: index,
            hook: FenceHook::Tcx,
            displaced_by: None,
        }),
        Some(first) => Err(not_fenced(format!(
            "{} is ahead of the fence",
            program(first.program_id)
        ))),
        None => Err(not_fenced("its TCX chain is empty".to_owned())),
    }
}

/// A program in words.
pub(super) fn program(id: u32) -> String {
    let found = loaded_programs()
        .filter_map(Result::ok)
        .find(|program| program.id() == id);
    match found.as_ref().and_then(|program| program.name_as_str()) {
        Some(name) => format!("program {id} (`{name}`)"),
        None => format!("program {id}"),
    }
}

fn name(index: u32) -> String {
    nix::net::if_::if_indextoname(index)
        .ok()
        .and_then(|name| name.into_string().ok())
        .unwrap_or_else(|| format!("index {index}"))
}
