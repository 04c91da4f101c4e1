//! Why the kernel side is not in place, and what to do about it.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

use aya::EbpfError;
use aya::maps::{MapError, MapType};
use aya::pin::PinError;
use aya::programs::ProgramError;
use aya::programs::links::LinkError;
use probe_ebpf::maps::MAX_WITNESSES;

use super::mode::Mode;

/// What distinguishes one map from another beside its name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MapShape {
    /// Type of the map.
    pub map_type: MapType,
    /// Bytes of a key.
    pub key_size: u32,
    /// Bytes of a value.
    pub value_size: u32,
    /// Entries that the map holds at most.
    pub max_entries: u32,
}

impl fmt::Display for MapShape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            map_type,
            key_size,
            value_size,
            max_entries,
        } = self;
        write!(
            formatter,
            "{map_type:?} of {max_entries} entries, key {key_size} bytes, value {value_size} bytes"
        )
    }
}

/// Why the kernel side is not in place.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// No program can read the packets of an interface.
    #[error(
        "packets on {interface} begin with a header of type {link_type}, behind which nothing can look"
    )]
    UnknownHeader {
        /// The interface.
        interface: String,
        /// What they begin with: ARPHRD_* of `linux/if_arp.h`.
        link_type: u16,
    },
    /// The build had no kernel programs to embed.
    #[error(
        "this agent was built without the kernel programs: build it with `cargo xtask build`, or \
         name an object in PULSEPATH_BPF_OBJECT while building"
    )]
    NotBuiltIn,
    /// The pins' file system is missing.
    #[error(
        "{} is not on a BPF file system: mount one with `mount -t bpf bpf /sys/fs/bpf`, or set \
         `pin_dir` to a directory on one", path.display()
    )]
    NoBpfFileSystem {
        /// The directory that should be on it.
        path: PathBuf,
    },
    /// The process may not do what it takes.
    #[error(
        "no permission to {action}: run as root, or with the capabilities CAP_BPF, CAP_NET_ADMIN \
         and CAP_PERFMON"
    )]
    Permission {
        /// What was refused.
        action: String,
        /// The system call's error.
        #[source]
        source: io::Error,
    },
    /// The kernel lacks something.
    #[error(
        "the kernel is too old: {needs} needs Linux {major}.{minor} or newer, this is {found}: \
         upgrade the kernel, or choose another `reflector.attach`"
    )]
    TooOld {
        /// What it lacks.
        needs: &'static str,
        /// First version that has it.
        major: u8,
        /// First version that has it.
        minor: u8,
        /// The version that runs.
        found: String,
        /// The system call's error.
        #[source]
        source: io::Error,
    },
    /// The limit of locked memory, which kernels before 5.11 apply to maps, is too low.
    #[error(
        "RLIMIT_MEMLOCK is too low for the maps and cannot be raised: run with `ulimit -l \
         unlimited` or `LimitMEMLOCK=infinity`, or give the process CAP_SYS_RESOURCE"
    )]
    MemoryLock(#[source] io::Error),
    /// Another agent, or a `detach`, is at work.
    #[error(
        "another pulsepath-agent{} uses {}: stop it first, or set another `pin_dir`",
        holder.map(|pid| format!(" (process {pid})")).unwrap_or_default(), pin_dir.display()
    )]
    Locked {
        /// The directory that it has locked.
        pin_dir: PathBuf,
        /// Its process, if visible.
        holder: Option<u32>,
    },
    /// The pins were made by a newer version.
    #[error(
        "{} holds layout version {found}, this agent knows versions up to {known}: run a newer \
         pulsepath-agent, or remove everything with the newer one's `pulsepath-agent detach`",
        pin_dir.display()
    )]
    NewerLayout {
        /// Where the pins are.
        pin_dir: PathBuf,
        /// Their version.
        found: u32,
        /// The newest version that is known.
        known: u32,
    },
    /// A pinned map is not what its name says.
    #[error(
        "the pinned map {} is a {pinned}, this agent expects a {expected}: remove everything with \
         `pulsepath-agent detach` and start again", path.display()
    )]
    MapMismatch {
        /// The pin.
        path: PathBuf,
        /// What is pinned.
        pinned: MapShape,
        /// What belongs there.
        expected: MapShape,
    },
    /// A file or directory below the pin directory.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system call's error.
        #[source]
        source: io::Error,
    },
    /// A map could not be opened, read or written.
    #[error("cannot {action} map {map}")]
    Map {
        /// What was tried.
        action: &'static str,
        /// The map.
        map: &'static str,
        /// What went wrong.
        #[source]
        source: MapError,
    },
    /// A witness set without a clear majority.
    #[error(
        "{instances:x?} is no witness set: it takes up to {MAX_WITNESSES} instance ids, none of them 0 and \
         none twice"
    )]
    WitnessSet {
        /// The instance ids.
        instances: Vec<u64>,
    },
    /// A witness's memory has no room left.
    #[error("the floors of {nodes} nodes are stored already")]
    MemoryFull {
        /// How many it can hold.
        nodes: usize,
    },
    /// An address that the fence cannot guard.
    #[error("{address} cannot be guarded: {reason}")]
    Unguardable {
        /// The address.
        address: IpAddr,
        /// Why not.
        reason: String,
    },
    /// The object could not be loaded.
    #[error("cannot load the kernel programs' maps")]
    Load(#[source] EbpfError),
    /// The object lacks a program.
    #[error("the embedded object has no program {0}: build it again with `cargo xtask build`")]
    NoProgram(&'static str),
    /// A program could not be loaded, attached or replaced.
    #[error("cannot {action} program {program}")]
    Program {
        /// What was tried.
        action: &'static str,
        /// The program.
        program: &'static str,
        /// What went wrong.
        #[source]
        source: ProgramError,
    },
    /// The verifier does not accept a program.
    #[error(
        "the kernel's verifier rejects program {program} ({log}): please report this with the \
         kernel's version"
    )]
    Rejected {
        /// The program.
        program: &'static str,
        /// The end of the verifier's log.
        log: String,
        /// The system call's error.
        #[source]
        source: io::Error,
    },
    /// A pin could not be made.
    #[error("cannot pin {}", path.display())]
    Pin {
        /// The pin.
        path: PathBuf,
        /// What went wrong.
        #[source]
        source: PinError,
    },
    /// A pinned link could not be used.
    #[error("cannot use the pinned link {}", path.display())]
    Link {
        /// The pin.
        path: PathBuf,
        /// What went wrong.
        #[source]
        source: LinkError,
    },
    /// The interface is gone.
    #[error("interface {interface} does not exist (any more)")]
    NoInterface {
        /// Its name.
        interface: String,
    },
    /// Another XDP program is attached.
    #[error(
        "XDP on {interface} is taken by {holder}: detach that one, or set `reflector.attach` to \
         `auto` or `tcx`"
    )]
    XdpBusy {
        /// The interface.
        interface: String,
        /// Whose program it is.
        holder: String,
    },
    /// The interface does not do that mode.
    #[error("{interface} refuses {mode}: set `reflector.attach` to `auto` or another mode")]
    Refused {
        /// The interface.
        interface: String,
        /// What was tried.
        mode: Mode,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

impl KernelError {
    /// Whether no kernel program can work here at all, so that a reflector in user space is better
    /// than none. Everything else is for the operator to put right.
    pub fn rules_out_kernel(&self) -> bool {
        matches!(
            self,
            Self::NotBuiltIn
                | Self::Permission { .. }
                | Self::TooOld { .. }
                | Self::MemoryLock(_)
                | Self::Rejected { .. }
                | Self::Refused { .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_operator_can_put_right_is_no_reason_for_user_space() {
        let locked = KernelError::Locked {
            pin_dir: "/sys/fs/bpf/p".into(),
            holder: Some(7),
        };
        assert!(!locked.rules_out_kernel());
        assert_eq!(
            locked.to_string(),
            "another pulsepath-agent (process 7) uses /sys/fs/bpf/p: stop it first, or set another \
             `pin_dir`"
        );
        assert!(KernelError::NotBuiltIn.rules_out_kernel());
    }
}
