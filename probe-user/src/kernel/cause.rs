//! From the errors of system calls and of aya to those that say what to do.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use aya::EbpfError;
use aya::maps::MapError;
use aya::programs::ProgramError;
use aya::util::KernelVersion;
use nix::libc;

use super::error::KernelError;
use super::preflight;

impl KernelError {
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
    fn a_verifiers_log_is_cut_to_its_verdict() {
        let log = "0: r1 = 0\n1: r2 = 1\n2: exit\nR0 !read_ok\n\nprocessed 3 insns\n";
        assert_eq!(last_lines(log), "2: exit | R0 !read_ok | processed 3 insns");
    }
}
