//! The programs that the build embedded: loaded, pinned, and their log.

use std::fs;
use std::path::{Path, PathBuf};

use aya::programs::{ProgramError, SchedClassifier, Xdp};
use aya::{Ebpf, EbpfLoader};
use aya_log::EbpfLogger;
use log::Log;
use serde::Deserialize;

use super::error::KernelError;
use super::maps::{self, SPECS, TUNNEL_PEERS};

pub(super) const REFLECT_XDP: &str = "reflect_xdp";
pub(super) const REFLECT_TCX: &str = "reflect_tcx";
pub(super) const FENCE: &str = "fence";
pub(super) const FENCE_IP: &str = "fence_ip";
pub(super) const TUNNEL_IN: &str = "tunnel_in";
pub(super) const TUNNEL_IN_IP: &str = "tunnel_in_ip";
pub(super) const TUNNEL_OUT: &str = "tunnel_out";
pub(super) const TUNNEL_OUT_IP: &str = "tunnel_out_ip";
const CLASSIFIERS: [&str; 7] = [
    REFLECT_TCX,
    FENCE,
    FENCE_IP,
    TUNNEL_IN,
    TUNNEL_IN_IP,
    TUNNEL_OUT,
    TUNNEL_OUT_IP,
];

/// The switch of the tunnel counters in the reflector's XDP program.
const COUNT_TUNNELS: &str = "COUNT_TUNNELS";

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

/// What is settled when the programs are loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadOptions {
    /// Which log lines they make.
    pub log: KernelLogLevel,
    /// Of how many peers tunnels are counted at most; `None`: of none.
    pub tunnel_peers: Option<u32>,
}

/// The kernel programs' log lines, handed on to the `log` crate.
pub type KernelLog = EbpfLogger<&'static dyn Log>;

/// Loads the maps, or those that are pinned in `directory`, and the programs.
pub(super) fn load(directory: &Path, options: LoadOptions) -> Result<Ebpf, KernelError> {
    maps::make_room_for_peers(directory, options.tunnel_peers)?;
    let mut programs = load_maps(directory, options)?;
    xdp(&mut programs)?
        .load()
        .map_err(KernelError::load_program(REFLECT_XDP))?;
    for name in CLASSIFIERS {
        load_classifier(&mut programs, name)?;
    }
    Ok(programs)
}

/// Loads a second copy of one of the classifiers, on the maps that are pinned in `directory`.
pub(super) fn load_copy(
    directory: &Path,
    options: LoadOptions,
    name: &'static str,
) -> Result<Ebpf, KernelError> {
    let mut programs = load_maps(directory, options)?;
    load_classifier(&mut programs, name)?;
    Ok(programs)
}

fn load_maps(directory: &Path, options: LoadOptions) -> Result<Ebpf, KernelError> {
    let level = options.log as u8;
    let count_tunnels = u8::from(options.tunnel_peers.is_some());
    let mut loader = EbpfLoader::new();
    loader.override_global(aya_log::LEVEL, &level, false);
    loader.override_global(COUNT_TUNNELS, &count_tunnels, true);
    loader.map_max_entries(TUNNEL_PEERS, maps::peers_held(options.tunnel_peers));
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
    for name in CLASSIFIERS.into_iter().chain([REFLECT_XDP]) {
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
