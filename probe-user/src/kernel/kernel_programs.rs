//! The programs that the build embedded: loaded, pinned, and their log.

use std::fs;
use std::path::{Path, PathBuf};

use aya::programs::{ProgramError, SchedClassifier, Xdp};
use aya::{Ebpf, EbpfLoader};
use aya_log::EbpfLogger;
use log::Log;
use serde::Deserialize;

use super::error::KernelError;
use super::maps::SPECS;

pub(super) const REFLECT_XDP: &str = "reflect_xdp";
pub(super) const REFLECT_TCX: &str = "reflect_tcx";
pub(super) const FENCE: &str = "fence";
pub(super) const FENCE_IP: &str = "fence_ip";
/// The fence, for devices with Ethernet headers and without.
pub(super) const FENCES: [&str; 2] = [FENCE, FENCE_IP];
const PROGRAMS: [&str; 4] = [REFLECT_XDP, REFLECT_TCX, FENCE, FENCE_IP];

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
    let mut programs = load_maps(directory, log)?;
    xdp(&mut programs)?
        .load()
        .map_err(KernelError::load_program(REFLECT_XDP))?;
    for name in [REFLECT_TCX, FENCE, FENCE_IP] {
        load_classifier(&mut programs, name)?;
    }
    Ok(programs)
}

/// Loads a second copy of one of the classifiers, on the maps that are pinned in `directory`.
pub(super) fn load_copy(
    directory: &Path,
    log: KernelLogLevel,
    name: &'static str,
) -> Result<Ebpf, KernelError> {
    let mut programs = load_maps(directory, log)?;
    load_classifier(&mut programs, name)?;
    Ok(programs)
}

fn load_maps(directory: &Path, log: KernelLogLevel) -> Result<Ebpf, KernelError> {
    let level = log as u8;
    let mut loader = EbpfLoader::new();
    loader.override_global(aya_log::LEVEL, &level, false);
    for spec in &SPECS {
        loader.map_pin_path(spec.name, directory.join(spec.name));
    }
    loader.load(OBJECT).map_err(KernelError::load)
}

fn load_classifier(programs: &mut Ebpf, name: &'static str) -> Result<(), KernelError> {
    classifier(programs, name)?
        .load()
        .map_err(KernelError::load_program(name))
}

/// Pins the programs, in place of those that an earlier agent pinned.
pub(super) fn pin(programs: &mut Ebpf, directory: &Path) -> Result<(), KernelError> {
    for name in PROGRAMS {
        pin_at(programs, name, &directory.join(name))?;
    }
    Ok(())
}

/// Pins a program, in place of what is pinned there.
pub(super) fn pin_at(
    programs: &mut Ebpf,
    name: &'static str,
    path: &Path,
) -> Result<(), KernelError> {
    let program = programs
        .program_mut(name)
        .ok_or(KernelError::NoProgram(name))?;
    let mut new = path.as_os_str().to_owned();
    new.push("_new");
    let new = PathBuf::from(new);
    match fs::remove_file(&new) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(KernelError::file("remove", &new)(error)),
    }
    program.pin(&new).map_err(|source| KernelError::Pin {
        path: new.clone(),
        source,
    })?;
    fs::rename(&new, path).map_err(KernelError::file("replace", path))
}

pub(super) fn take_log(programs: &mut Ebpf) -> Option<KernelLog> {
    // The only error is that no program has a log line.
    EbpfLogger::init(programs).ok()
}

pub(super) fn xdp(programs: &mut Ebpf) -> Result<&mut Xdp, KernelError> {
    find(programs, REFLECT_XDP)
}

pub(super) fn tcx(programs: &mut Ebpf) -> Result<&mut SchedClassifier, KernelError> {
    classifier(programs, REFLECT_TCX)
}

pub(super) fn classifier<'a>(
    programs: &'a mut Ebpf,
    name: &'static str,
) -> Result<&'a mut SchedClassifier, KernelError> {
    find(programs, name)
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
