//! The kernel side as user space sees it: programs, maps and links, pinned so that they outlive
//! the agent.
//!
//! [`Kernel`] loads what the build embedded, adopts what an earlier agent pinned, and attaches.
//! [`Maps`] reads and writes the maps, also without a [`Kernel`]. Below `pin_dir` everything
//! lies in one directory per layout version; only the process that holds its lock changes it.
//! [`Fence`] is the same for the addresses that the fence guards, [`WitnessMemory`] for what this node
//! must not forget as a witness, [`Tunnels`] for what the tunnel counters have counted.
//!
//! Its unsafe code is in `entries`, `sys` and `value`. It does not know
//! of netlink, sockets or tasks.

mod attach;
mod cause;
mod clsact;
mod entries;
mod error;
mod fence;
mod kernel_programs;
mod layout;
mod lease;
mod links;
mod maps;
mod memory;
mod migrate;
mod mode;
mod preflight;
mod removal;
mod stats;
mod sys;
mod tunnels;
mod value;

use std::path::Path;

use aya::Ebpf;

pub use attach::Attachment;
pub use error::{KernelError, MapShape};
pub use fence::{Fence, FenceHook, Fenced, NotFenced};
pub use kernel_programs::{KernelLog, KernelLogLevel, LoadOptions, is_built_in};
pub use layout::version_directory;
pub use lease::WitnessSet;
pub use links::{LinkKind, PinnedLink, scan as scan_links};
pub use maps::Maps;
pub use memory::{Stored, WitnessMemory};
pub use mode::{AttachSetting, Choice, Mode, TcSetting, choices};
pub use removal::{Removal, Removed};
pub use stats::Counter;
pub use tunnels::{Counted, NotCounted, Peer, Traffic, TunnelHook, Tunnels};

use layout::Layout;

/// The kernel side, loaded and locked. Dropping it leaves everything in place.
pub struct Kernel {
    layout: Layout,
    programs: Ebpf,
    maps: Maps,
    options: LoadOptions,
}

impl Kernel {
    /// Takes the lock of `pin_dir`, brings maps and programs into the kernel or adopts the maps
    /// that are pinned there, and carries an older layout's values over.
    ///
    /// Nothing that is attached changes yet: configure the maps first, then call
    /// [`Self::replace_programs`].
    pub fn open(pin_dir: &Path, options: LoadOptions) -> Result<Self, KernelError> {
        preflight::check(pin_dir)?;
        let layout = Layout::lock(pin_dir)?;
        let older = layout.older_versions()?;
        maps::check_pinned(layout.directory())?;
        let programs = kernel_programs::load(layout.directory(), options)?;
        let mut maps = Maps::open(layout.directory())?;
        // The newest of them knows best; once it is carried over, the others are left alone.
        for directory in older.iter().rev() {
            migrate::carry_over(directory, layout.directory())?;
        }
        maps.name_counters()?;
        Fence::open(layout.directory())?.name_counters()?;
        maps.begin_incarnation()?;
        let mut kernel = Self {
            layout,
            programs,
            maps,
            options,
        };
        kernel_programs::pin(&mut kernel.programs, kernel.layout.directory())?;
        Ok(kernel)
    }

    /// The maps, for reading.
    pub fn maps(&self) -> &Maps {
        &self.maps
    }

    /// The maps, for writing.
    pub fn maps_mut(&mut self) -> &mut Maps {
        &mut self.maps
    }

    /// Directory of the present layout's pins.
    pub fn directory(&self) -> &Path {
        self.layout.directory()
    }

    /// Whether the pins are still there. Somebody may have removed them by force.
    pub fn is_in_place(&self) -> bool {
        self.layout.is_in_place()
    }

    /// The programs' log lines, once; `None` if they make none.
    pub fn take_log(&mut self) -> Option<KernelLog> {
        match self.options.log {
            KernelLogLevel::Off => None,
            _ => kernel_programs::take_log(&mut self.programs),
        }
    }

    /// Puts this build's programs into every link and filter that is pinned, atomically, and brings
    /// an older layout's over. Those of interfaces that are gone are removed. Returns how many go
    /// on.
    pub fn replace_programs(&mut self) -> Result<usize, KernelError> {
        for directory in self.layout.older_versions()? {
            migrate::adopt_links(&mut self.programs, &directory, self.layout.directory())?;
            removal::remove_directory(&directory)?;
        }
        let links = links::remove_dead(self.layout.directory())?;
        for link in &links {
            links::replace_program(&mut self.programs, link)?;
        }
        let directory = self.layout.directory();
        let filters = clsact::adopt(&mut self.programs, directory, directory)?;
        Ok(links.len() + filters)
    }
}
