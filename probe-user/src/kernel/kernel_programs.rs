//! The programs that the build embedded: loaded, pinned, and their log.

use std::fs;
use std::path::Path;

use aya::programs::{ProgramError, SchedClassifier, Xdp};
use aya::{Ebpf, EbpfLoader};
use aya_log::EbpfLogger;
use log::Log;
use serde::Deserialize;

use super::error::KernelError;
use super::maps::SPECS;

pub(super) const REFLECT_XDP: &str = "reflect_xdp";
pub(super) const REFLECT_TCX: &str = "reflect_tcx";

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/pulsepath.o"));

/// Whether the build had kernel programs to embed.
pub fn is_built_in() -> bool {
    !OBJECT.is_empty()
}

/// Which log lines of the kernel programs are made. What is not made costs nothing: the verifier
/// removes it.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "lowercase")]
pub enum KernelLogLevel {
    /// None.
    #[default]
    Off,
    /// Errors.
    Error,
    /// And warnings.
    Warn,
    /// And what is worth knowing.
    Info,
    /// And each packet that is dropped.
    Debug,
    /// And each packet that is answered.
    Trace,
}

/// The kernel programs' log lines, handed on to the `log` crate.
pub type KernelLog = EbpfLogger<&'static dyn Log>;

/// Loads the maps, or those that are pinned in `directory`, and the programs.
pub(super) fn load(directory: &Path, log: KernelLogLevel) -> Result<Ebpf, KernelError> {
    let level = log as u8;
    let mut loader = EbpfLoader::new();
    loader.override_global(aya_log::LEVEL, &level, false);
    for spec in &SPECS {
        loader.map_pin_path(spec.name, directory.join(spec.name));
    }
    let mut programs = loader.load(OBJECT).map_err(KernelError::load)?;
    xdp(&mut programs)?
        .load()
        .map_err(KernelError::load_program(REFLECT_XDP))?;
    tcx(&mut programs)?
        .load()
        .map_err(KernelError::load_program(REFLECT_TCX))?;
    Ok(programs)
}

/// Pins the programs, in place of those that an earlier agent pinned.
pub(super) fn pin(programs: &mut Ebpf, directory: &Path) -> Result<(), KernelError> {
    for name in [REFLECT_XDP, REFLECT_TCX] {
        let program = programs
            .program_mut(name)
            .ok_or(KernelError::NoProgram(name))?;
        let (path, new) = (directory.join(name), directory.join(format!("{name}_new")));
        match fs::remove_file(&new) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(KernelError::file("remove", &new)(error)),
        }
        program.pin(&new).map_err(|source| KernelError::Pin {
            path: new.clone(),
            source,
        })?;
        fs::rename(&new, &path).map_err(KernelError::file("replace", &path))?;
    }
    Ok(())
}

pub(super) fn take_log(programs: &mut Ebpf) -> Option<KernelLog> {
    // The only error is that no program has a log line.
    EbpfLogger::init(programs).ok()
}

pub(super) fn xdp(programs: &mut Ebpf) -> Result<&mut Xdp, KernelError> {
    find(programs, REFLECT_XDP)
}

pub(super) fn tcx(programs: &mut Ebpf) -> Result<&mut SchedClassifier, KernelError> {
    find(programs, REFLECT_TCX)
}

fn find<'a, T>(programs: &'a mut Ebpf, name: &'static str) -> Result<&'a mut T, KernelError>
where
    &'a mut T: TryFrom<&'a mut aya::programs::Program, Error = ProgramError>,
{
    let program = programs
        .program_mut(name)
        .ok_or(KernelError::NoProgram(name))?;
    program.try_into().map_err(|source| KernelError::Program {
        action: "use",
        program: name,
        source,
    })
}
