//! Putting the fence on devices, and keeping it first there.

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use aya::programs::SchedClassifier;
use nix::libc;
use tracing::{info, warn};

use super::status::{of_filter, of_link, program};
use super::{Fenced, NotFenced};
use crate::interfaces::Interface;
use crate::kernel::cause::{self, is_before};
use crate::kernel::clsact;
use crate::kernel::error::KernelError;
use crate::kernel::kernel_programs::{self, classifier};
use crate::kernel::links::{self, LinkKind, PinnedLink, link_layer};
use crate::kernel::sys::{self, Hook};
use crate::kernel::{Kernel, TcSetting};
use crate::logging::in_words;

impl Kernel {
    /// Puts the fence on each of these devices, first among the programs there, or keeps it there.
    /// One on which another program has come before it since is put first again, and that is told.
    ///
    /// Call it again whenever interfaces change, and from time to time: nothing tells when another
    /// program comes. What fails on one device does not hold up the others.
    pub fn fence(
        &mut self,
        devices: &[Interface],
        setting: TcSetting,
    ) -> Result<Vec<Result<Fenced, NotFenced>>, KernelError> {
        links::remove_dead(self.layout.directory())?;
        let fence = |device| {
            let fenced = self.fence_device(device, setting);
            if let Ok(Fenced {
                displaced_by: Some(other),
                ..
            }) = &fenced
            {
                warn!(device = device.name, %other, "put the fence first again, ahead of another");
            }
            fenced
        };
        Ok(devices.iter().map(fence).collect())
    }

    /// Takes the fence off every device not in `indexes`, and returns what it was.
    pub fn unfence_others(&mut self, indexes: &[u32]) -> Result<Vec<PathBuf>, KernelError> {
        let directory = self.layout.directory();
        let mut removed = Vec::new();
        for link in links::scan(directory)? {
            let keep = |index: u32| indexes.contains(&index);
            if link.kind.is_fence() && !link.interface_index.is_some_and(keep) {
                links::remove(&link.path)?;
                removed.push(link.path);
            }
        }
        for pin in clsact::scan(directory)? {
            if pin.kind.is_fence() && !indexes.contains(&pin.interface_index) {
                clsact::remove(&pin)?;
                removed.push(pin.path);
            }
        }
        Ok(removed)
    }

    fn fence_device(
        &mut self,
        device: &Interface,
        setting: TcSetting,
    ) -> Result<Fenced, NotFenced> {
        let not_fenced = |reason: String| NotFenced {
            device: device.name.clone(),
            reason,
        };
        let layer = link_layer(device).ok_or_else(|| {
            not_fenced(format!(
                "its packets begin with a header of type {}, behind which the fence cannot look",
                device.link_type
            ))
        })?;
        let kind = LinkKind::fence(layer);
        let result = match setting {
            TcSetting::Clsact => self.fence_clsact(device, kind),
            TcSetting::Tcx => self.fence_tcx(device, kind),
            TcSetting::Auto => match self.fence_tcx(device, kind) {
                Err(KernelError::TooOld { .. }) => self.fence_clsact(device, kind),
                result => result,
            },
        };
        match result {
            Ok(fenced) => fenced,
            Err(error) => Err(not_fenced(in_words(&error))),
        }
    }

    fn fence_tcx(
        &mut self,
        device: &Interface,
        kind: LinkKind,
    ) -> Result<Result<Fenced, NotFenced>, KernelError> {
        let pin = kind.pin(self.layout.directory(), device.index);
        finish_insertion(&pin)?;
        if !pin.exists() {
            let classifier = classifier(&mut self.programs, kind.program())?;
            attach(classifier, kind, device, &pin)?;
        }
        let link = links::examine(pin)?;
        let mut fenced = of_link(&device.name, device.index, &link);
        if fenced.is_err() {
            fenced = self.put_first(device, &link)?;
        }
        if fenced.is_ok() {
            self.remove_filter(device)?;
        }
        Ok(fenced)
    }

    /// Attaches the fence once more, ahead of all others, and only then removes the link that is
    /// not first. The kernel wants another copy of the program for that.
    fn put_first(
        &mut self,
        device: &Interface,
        link: &PinnedLink,
    ) -> Result<Result<Fenced, NotFenced>, KernelError> {
        let ahead = sys::tcx_egress_chain(device.index)
            .ok()
            .and_then(|chain| chain.first().map(|first| program(first.program_id)));
        let new = insertion(&link.path);
        let mut copy =
            kernel_programs::load_copy(self.layout.directory(), self.options, link.kind.program())?;
        attach(
            classifier(&mut copy, link.kind.program())?,
            link.kind,
            device,
            &new,
        )?;
        finish_insertion(&link.path)?;
        let link = links::examine(link.path.clone())?;
        let fenced = of_link(&device.name, device.index, &link);
        Ok(fenced.map(|fenced| Fenced {
            displaced_by: ahead,
            ..fenced
        }))
    }

    fn fence_clsact(
        &mut self,
        device: &Interface,
        kind: LinkKind,
    ) -> Result<Result<Fenced, NotFenced>, KernelError> {
        let pin = clsact::Pin::new(self.layout.directory(), device.index, kind);
        clsact::install(&mut self.programs, &pin, &device.name)?;
        // Not before the filter is in force.
        for link in links::scan(self.layout.directory())? {
            if link.kind.is_fence() && link.interface_index == Some(device.index) {
                links::remove(&link.path)?;
            }
        }
        Ok(of_filter(&device.name, device.index))
    }

    fn remove_filter(&self, device: &Interface) -> Result<(), KernelError> {
        for pin in clsact::scan(self.layout.directory())? {
            if pin.kind.is_fence() && pin.interface_index == device.index {
                clsact::remove(&pin)?;
                info!(
                    device = device.name,
                    "TCX has taken over from the clsact filter"
                );
            }
        }
        Ok(())
    }
}

fn attach(
    classifier: &SchedClassifier,
    kind: LinkKind,
    device: &Interface,
    pin: &Path,
) -> Result<(), KernelError> {
    let program = classifier.fd().map_err(|source| KernelError::Program {
        action: "attach",
        program: kind.program(),
        source,
    })?;
    let attached = sys::attach(program.as_fd(), device.index, Hook::TCX_EGRESS, pin);
    attached.map_err(|source| match source.raw_os_error() {
        Some(libc::ENODEV) => KernelError::NoInterface {
            interface: device.name.clone(),
        },
        // https://git.kernel.org/torvalds/c/e420bed02507
        Some(code) if is_before(6, 6) => cause::too_old("TCX", 6, 6, code),
        _ => KernelError::file("attach the fence and pin it at", pin)(source),
    })
}

/// Where a link is pinned while it takes over from the one at `pin`.
fn insertion(pin: &Path) -> PathBuf {
    let mut name = pin.file_name().unwrap_or_default().to_owned();
    name.push(links::TAKING_OVER);
    pin.with_file_name(name)
}

/// Puts a link that is ahead of the one at `pin` in its place, if there is one: perhaps of an agent
/// that was killed half-way.
fn finish_insertion(pin: &Path) -> Result<(), KernelError> {
    let new = insertion(pin);
    if !new.exists() {
        return Ok(());
    }
    links::remove(pin)?;
    fs::rename(&new, pin).map_err(KernelError::file("move a link to", pin))
}
