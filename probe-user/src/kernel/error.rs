//! Why the kernel side is not in place, and what to do about it.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

use aya::EbpfError;
use aya::maps::{MapError, MapType};
use aya::pin::PinError;
use aya::programs::ProgramError;
use aya::programs::links::LinkError;
use aya::util::KernelVersion;
use nix::libc;

use super::mode::Mode;
use super::preflight;

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
        source: ProgramError,
    },
    /// The kernel attached the program in a way that cannot be pinned.
    #[error("{mode} on {interface} cannot be pinned: the kernel gives no link for it")]
    NotPinnable {
        /// The interface.
        interface: String,
        /// What was tried.
        mode: Mode,
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
                | Self::NotPinnable { .. }
        )
    }

    /// An error about a map.
    pub(super) fn map(action: &'static str, map: &'static str) -> impl FnOnce(MapError) -> Self {
        move |source| match permission(&source) {
            Some(refused) => Self::Permission {
                action: format!("{action} map {map}"),
                source: refused,
            },
            None => Self::Map {
                action,
                map,
                source,
            },
        }
    }

    /// An error about a file below the pin directory.
    pub(super) fn file(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| match permission(&source) {
            Some(source) => Self::Permission {
                action: format!("{action} {}", path.display()),
                source,
            },
            None => Self::File {
                action,
                path,
                source,
            },
        }
    }

    /// An error of loading the object's maps.
    pub(super) fn load(source: EbpfError) -> Self {
        match permission(&source) {
            Some(refused) if is_before(5, 11) => Self::MemoryLock(refused),
            Some(refused) => Self::Permission {
                action: "create maps".to_owned(),
                source: refused,
            },
            None => Self::Load(source),
        }
    }

    /// An error of loading a program.
    pub(super) fn load_program(program: &'static str) -> impl FnOnce(ProgramError) -> Self {
        move |source| {
            let ProgramError::LoadError {
                io_error,
                verifier_log,
            } = source
            else {
                return Self::Program {
                    action: "load",
                    program,
                    source,
                };
            };
            match io_error.raw_os_error() {
                // BPF_F_XDP_HAS_FRAGS: https://git.kernel.org/torvalds/c/c2f2cdbeffda
                Some(code) if is_before(5, 18) => too_old("XDP with frags", 5, 18, code),
                // The verifier says EACCES, too, of what it would let a more privileged process do.
                Some(libc::EPERM | libc::EACCES) if !preflight::may_load_programs() => {
                    let action = format!("load program {program}");
                    Self::Permission {
                        action,
                        source: io_error,
                    }
                }
                _ => {
                    let log = last_lines(&verifier_log.to_string());
                    Self::Rejected {
                        program,
                        log,
                        source: io_error,
                    }
                }
            }
        }
    }
}

/// The end of a verifier's log: its verdict.
fn last_lines(log: &str) -> String {
    let mut lines: Vec<_> = log
        .lines()
        .rev()
        .filter(|line| !line.is_empty())
        .take(3)
        .collect();
    lines.reverse();
    lines.join(" | ")
}

/// A version error for a call that failed with `code`.
pub(super) fn too_old(needs: &'static str, major: u8, minor: u8, code: i32) -> KernelError {
    let source = io::Error::from_raw_os_error(code);
    KernelError::TooOld {
        needs,
        major,
        minor,
        found: running_version(),
        source,
    }
}

/// Whether the running kernel calls itself older than that. Distributions port features back, so
/// this only explains failures; nothing is refused because of a number.
pub(super) fn is_before(major: u8, minor: u8) -> bool {
    KernelVersion::current().is_ok_and(|running| running < KernelVersion::new(major, minor, 0))
}

fn running_version() -> String {
    match nix::sys::utsname::uname() {
        Ok(name) => name.release().to_string_lossy().into_owned(),
        Err(_) => "unknown".to_owned(),
    }
}

/// The system call's error number at the bottom of an error.
pub(super) fn os_error(error: &(dyn Error + 'static)) -> Option<i32> {
    let mut error = Some(error);
    while let Some(here) = error {
        if let Some(code) = here
            .downcast_ref::<io::Error>()
            .and_then(io::Error::raw_os_error)
        {
            return Some(code);
        }
        error = here.source();
    }
    None
}

/// The refusal at the bottom of an error, if it is one.
pub(super) fn permission(error: &(dyn Error + 'static)) -> Option<io::Error> {
    os_error(error)
        .filter(|code| [libc::EPERM, libc::EACCES].contains(code))
        .map(io::Error::from_raw_os_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_number_is_found_below_other_errors() {
        let refused = io::Error::from_raw_os_error(libc::EPERM);
        let error = KernelError::load(EbpfError::MapError(MapError::CreateError {
            name: "PROBERS".to_owned(),
            io_error: refused,
        }));
        assert!(matches!(error, KernelError::Permission { .. }), "{error}");
        assert_eq!(os_error(&error), Some(libc::EPERM));
    }

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
        assert!(too_old("TCX", 6, 6, libc::EINVAL).rules_out_kernel());
    }

    #[test]
    fn a_verifiers_log_is_cut_to_its_verdict() {
        let log = "0: r1 = 0\n1: r2 = 1\n2: exit\nR0 !read_ok\n\nprocessed 3 insns\n";
        assert_eq!(last_lines(log), "2: exit | R0 !read_ok | processed 3 insns");
    }
}
