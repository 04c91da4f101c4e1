//! Attaching to an interface, in the best mode it offers.

use std::io;
use std::os::fd::AsFd;

use aya::programs::loaded_programs;
use nix::libc;
use serde::Serialize;
use tracing::info;

use super::Kernel;
use super::cause::{self, is_before};
use super::error::KernelError;
use super::kernel_programs::{classifier, xdp};
use super::links::{self, LinkKind, PinnedLink};
use super::mode::{AttachSetting, Choice, Mode, choices};
use super::sys::{self, Hook};
use crate::interfaces::Interface;

/// The reflector on an interface.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Attachment {
    /// The interface's name.
    pub interface: String,
    /// The interface's index.
    pub interface_index: u32,
    /// How it is attached.
    pub mode: Mode,
    /// Why that way, in words.
    pub reason: String,
    /// The link's id: the same for as long as the interface was never without a program.
    pub link_id: u32,
}

impl Mode {
    const fn kind(self) -> LinkKind {
        match self {
            Self::Native | Self::Generic => LinkKind::Xdp,
            Self::Tcx => LinkKind::Tcx,
        }
    }
}

impl Kernel {
    /// Attaches the reflector to `interface`, or keeps what is attached if the setting allows it.
    ///
    /// With [`AttachSetting::Auto`] the modes are tried in turn, and the last error is returned if
    /// none works. A mode that replaces another one and fails leaves the other one in force.
    pub fn attach(
        &mut self,
        interface: &Interface,
        setting: AttachSetting,
    ) -> Result<Attachment, KernelError> {
        let choices = choices(setting, interface);
        let present = self.present(interface)?;
        if let Some((link, mode)) = &present
            && let Some(kept) = keep(&choices, *mode)
        {
            return Ok(attachment(interface, kept, link));
        }
        let mut tried: Option<(Choice, KernelError)> = None;
        for mut choice in choices {
            if let Some((before, error)) = &tried {
                choice.reason = format!("auto: {} failed ({error})", before.mode);
            }
            match self.switch(interface, present.as_ref(), choice.mode) {
                Ok(link) => return Ok(attachment(interface, choice, &link)),
                Err(error @ KernelError::NoInterface { .. }) => return Err(error),
                Err(error) => {
                    info!(interface = interface.name, mode = %choice.mode, %error, "not to be had");
                    tried = Some((choice, error));
                }
            }
        }
        Err(tried.map_or_else(|| no_interface(interface), |(_, error)| error))
    }

    /// Detaches the reflector from every interface not in `indexes`, and returns the pins that
    /// are gone.
    pub fn detach_others(&mut self, indexes: &[u32]) -> Result<Vec<PinnedLink>, KernelError> {
        let directory = self.layout.directory();
        let mut removed = Vec::new();
        for link in links::scan(directory)? {
            let wanted = link
                .interface_index
                .is_some_and(|index| indexes.contains(&index));
            if link.kind.is_reflector() && !wanted {
                links::remove(&link.path)?;
                removed.push(link);
            }
        }
        Ok(removed)
    }

    /// What is attached to an interface, and how. A second link is a leftover of a change of mode
    /// that was cut short: it goes.
    fn present(&self, interface: &Interface) -> Result<Option<(PinnedLink, Mode)>, KernelError> {
        let links = links::remove_dead(self.layout.directory())?;
        let mut here = links.into_iter().filter(|link| {
            link.kind.is_reflector() && link.interface_index == Some(interface.index)
        });
        let first = here.next();
        for surplus in here {
            links::remove(&surplus.path)?;
        }
        Ok(first.map(|link| {
            let mode = match link.kind {
                LinkKind::Xdp if interface.xdp.is_some_and(|xdp| xdp.native) => Mode::Native,
                LinkKind::Xdp => Mode::Generic,
                _ => Mode::Tcx,
            };
            (link, mode)
        }))
    }

    /// Attaches in `mode`. What was there before goes only once the new link is in force, save
    /// that native and generic XDP exclude each other; then it comes back if the new one fails.
    fn switch(
        &mut self,
        interface: &Interface,
        present: Option<&(PinnedLink, Mode)>,
        mode: Mode,
    ) -> Result<PinnedLink, KernelError> {
        let Some((old, old_mode)) = present else {
            return self.attach_new(interface, mode);
        };
        info!(interface = interface.name, from = %old_mode, to = %mode, "changing the mode");
        if old.kind != mode.kind() {
            let link = self.attach_new(interface, mode)?;
            links::remove(&old.path)?;
            return Ok(link);
        }
        links::remove(&old.path)?;
        match self.attach_new(interface, mode) {
            Ok(link) => Ok(link),
            Err(error) => {
                self.attach_new(interface, *old_mode)?;
                Err(error)
            }
        }
    }

    fn attach_new(&mut self, interface: &Interface, mode: Mode) -> Result<PinnedLink, KernelError> {
        let path = mode.kind().pin(self.layout.directory(), interface.index);
        let (program, hook) = match mode {
            Mode::Native => (xdp(&mut self.programs)?.fd(), Hook::XDP_NATIVE),
            Mode::Generic => (xdp(&mut self.programs)?.fd(), Hook::XDP_GENERIC),
            Mode::Tcx => (
                classifier(&mut self.programs, mode.kind().program())?.fd(),
                Hook::TCX_INGRESS,
            ),
        };
        let program = program.map_err(|source| KernelError::Program {
            action: "attach",
            program: mode.kind().program(),
            source,
        })?;
        sys::attach(program.as_fd(), interface.index, hook, &path)
            .map_err(|source| refused(interface, mode, source))?;
        links::examine(path)
    }
}

/// The choice under which a mode that is in force stays, if it does.
fn keep(choices: &[Choice], mode: Mode) -> Option<Choice> {
    let position = choices.iter().position(|choice| choice.mode == mode)?;
    let mut choice = choices[position].clone();
    if position > 0 {
        // Attaching can reset a network card, so a mode that works is not left for a better one.
        choice.reason = "auto: found attached that way by an earlier agent".to_owned();
    }
    Some(choice)
}

fn attachment(interface: &Interface, choice: Choice, link: &PinnedLink) -> Attachment {
    Attachment {
        interface: interface.name.clone(),
        interface_index: interface.index,
        mode: choice.mode,
        reason: choice.reason,
        link_id: link.id,
    }
}

fn no_interface(interface: &Interface) -> KernelError {
    KernelError::NoInterface {
        interface: interface.name.clone(),
    }
}

fn refused(interface: &Interface, mode: Mode, source: io::Error) -> KernelError {
    let name = || interface.name.clone();
    match source.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) if mode != Mode::Tcx => KernelError::XdpBusy {
            interface: name(),
            holder: holder(interface),
        },
        Some(libc::ENODEV) => no_interface(interface),
        Some(libc::EPERM | libc::EACCES) => {
            let action = format!("attach {mode} to {}", interface.name);
            KernelError::Permission { action, source }
        }
        // https://git.kernel.org/torvalds/c/e420bed02507
        Some(code) if mode == Mode::Tcx && is_before(6, 6) => cause::too_old("TCX", 6, 6, code),
        _ => KernelError::Refused {
            interface: name(),
            mode,
            source,
        },
    }
}

/// Whose program an interface's XDP hook holds.
fn holder(interface: &Interface) -> String {
    let Some(xdp) = interface.xdp else {
        return "another program".to_owned();
    };
    let id = xdp.program_id;
    let program = loaded_programs()
        .filter_map(Result::ok)
        .find(|program| program.id() == id);
    match program.as_ref().and_then(|program| program.name_as_str()) {
        Some(name) => format!("program {id} (`{name}`)"),
        None => format!("program {id}"),
    }
}
